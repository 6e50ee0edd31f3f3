// SPDX-License-Identifier: Apache-2.0
// report.html: a comparison as one page that needs no network.
#pragma once

#include "sluice/report/html_data.hpp"
#include "sluice/report/html_page.hpp"
#include "sluice/report/html_script_charts.hpp"
#include "sluice/report/html_script_export.hpp"
#include "sluice/report/html_script_seeds.hpp"
#include "sluice/report/html_script_time.hpp"
#include "sluice/report/html_script_why.hpp"
#include "sluice/report/html_tables.hpp"
#include "sluice/report/html_why.hpp"

#include <string>
#include <string_view>

namespace sluice {
namespace detail {

inline std::string html_facts(const ComparisonReport& report) {
  const WorkloadReport& w = report.workload;
  std::string scales;
  for (const ReportBlock& block : blocks_of(report)) {
    const SystemReport& row = *block.rows.front();
    const std::string text = time_text(row.slo_tbt_s) + " (x" + tidy_text(block.slo_scale) + ")";
    if (scales.find(text) == std::string::npos) scales += (scales.empty() ? "" : ", ") + text;
  }
  std::string budget =
      std::to_string(w.budget_blocks) + " token blocks of " + std::to_string(w.block_tokens) + " tokens";
  if (w.budget_bytes > 0) budget += ", " + bytes_text(static_cast<double>(w.budget_bytes));
  std::string limits;
  if (w.batch_limit > 0) limits = std::to_string(w.batch_limit) + " requests";
  if (w.max_batch_tokens > 0) limits += (limits.empty() ? "" : ", ") + std::to_string(w.max_batch_tokens) + " tokens";
  std::string out = html_fact("trace", w.trace + (w.format.empty() ? "" : " (" + w.format + ")"));
  out += html_fact("requests", std::to_string(w.requests)) +
         html_fact(w.seeds.empty() ? "seed" : "seeds", seeds_text(seeds_served(w)));
  if (!w.redrawn.empty()) out += html_fact("the trace", "drawn again by each seed, " + w.redrawn);
  out += html_fact("model", w.model) + html_fact("device", w.device) + html_fact("KV budget on the device", budget);
  out += html_fact("KV budget on the host",
                   w.host_budget_bytes > 0 ? bytes_text(static_cast<double>(w.host_budget_bytes)) : "not bounded");
  out +=
      html_fact("SLO: a token every (scale)", scales) + html_fact("SLO: first token within", time_text(w.slo_ttft_s));
  out += html_fact("batch limit", limits) + html_fact("times from", w.profile);
  if (w.rate_scale != 1) out += html_fact("arrival rate", "x" + tidy_text(w.rate_scale));
  for (const auto& [label, text] : w.notes) out += html_fact(label, text);
  return out;
}

inline constexpr std::string_view html_plots = R"html(
<div class="bar no-print" role="group" aria-label="What the plots show">
<div class="row"><span class="name">SLO scale</span><span id="scales" class="row"></span></div>
<div class="row"><span class="name">Delivery</span><span id="deposits" class="row"></span></div>
<div class="row"><span class="name">In colour (up to 6)</span><span id="names" class="row"></span></div>
</div>
<noscript><p><b>The plots need JavaScript, which this browser does not run.</b> All numbers are in the tables below.</p></noscript>
<section><h2>Who got their tokens in time</h2>
<p class="sub">A user is owed a token every SLO. TBT attainment counts every deadline that passes without one, so a pause costs what it lasts.
Per-token attainment, the usual kind, counts a pause of an hour as one late token; it is shown beside, never alone. Systems with and without
a deposit are not compared with each other. The last row is a control: one request at a time.</p>
<div id="attainment-legend"></div><div id="attainment" class="two"></div></section>
<section class="keep" id="pairs" hidden><h2>Who is better, seed by seed</h2>
<p class="sub"><span class="part"></span>. Each ring is one seed: the system's figure less that of the system named, on the same workload. What a burst or a long prompt does to both is in neither.
The diamond is the mean, the bar its 95 % interval; where the bar crosses the line at 0 the seeds do not tell the two apart: a tie.</p>
<div id="pair-charts" class="two"></div></section>
<section class="keep"><h2>What it took</h2><p class="sub part"></p><div id="costs"></div></section>
<section class="keep"><h2>Latencies</h2><p class="sub"><span class="part"></span>.<span class="seed"></span> Share of requests (TTFT, E2E) or of gaps (TBT) that took at most so long.</p>
<div id="cdf-legend"></div><div id="cdf" class="three"></div></section>
<section><h2>Memory and queue over time</h2><p class="sub"><span class="part"></span>.<span class="seed"></span> The same axes for every system.<span class="no-print"> Draw over a stretch to see it closer.
<button type="button" id="whole" hidden>show the whole run</button></span></p>
<div id="time-legend"></div><div id="time" class="two"></div></section>
<section class="keep"><h2>One iteration, layer by layer</h2>
<p class="sub">The iteration that stalled longest.<span class="seed"></span> A layer starts when the one before has ended and its blocks have arrived.
<label class="no-print"> <select id="pick" aria-label="System whose iteration is shown"></select></label></p>
<div id="iteration"></div></section>
)html";

inline constexpr std::string_view html_definitions = R"html(
<section><h2>How to read the numbers</h2><ul class="defs cols">
<li><b>TTFT</b>: arrival to first token delivered, queueing included. <b>Gap</b> (TBT): between two deliveries of one request as its user sees them, pauses and other requests' prompts included.
<b>TPOT</b>: first to last delivery over the tokens between. <b>E2E</b>: arrival to last delivery.</li>
<li><b>TBT attainment</b> = tokens on time / (tokens on time + deadlines missed). A gap g within the SLO is a token on time; a longer one has missed &#8968;g / SLO&#8969; &#8722; 1 deadlines. A token that never came misses one every SLO until the end of the run.</li>
<li><b>Per-token attainment</b> = gaps within the SLO / tokens owed after the first. <b>TPOT</b> and <b>TTFT attainment</b>: requests within the SLO / all requests with that promise; unfinished and refused ones are late. <b>SLO attainment</b>: requests that kept all they were promised, TTFT and TPOT; <b>goodput</b>: such requests a second.</li>
<li>Of several seeds every number is a mean, &plusmn; half of its 95 % interval (Student's t); differences between systems are judged in pairs, seed by seed (studentized bootstrap).</li>
<li>Quantiles are exact, by nearest rank; those of TBT are over the gaps of all requests together. Throughput is from the first arrival to the last delivery. Stall is the share of iteration time in which the compute stream waited for a transfer.</li>
<li>Device memory is resident KV over the KV budget, the mean over the time that iterations took. Planning time is on the engine's clock.</li>
</ul></section>
)html";

} // namespace detail

/// The page: attainment by system, what it took, latency distributions, memory and queue over time, the layers of one
/// iteration, and the tables. One file, no network; deterministic.
[[nodiscard]] inline std::string report_html(const ComparisonReport& report,
                                             std::string_view title = "Sluice comparison") {
  const WorkloadReport& w = report.workload;
  const std::string under = w.model + " on " + w.device;
  std::string out = detail::html_begin({std::string{title} + ": " + w.trace + ", " + under, std::string{title},
                                        under + ", " + w.trace, detail::html_facts(report), w.command});
  out += detail::html_plots;
  out += detail::html_why_section;
  out += "<section><h2>All numbers</h2><p class=\"sub no-print\">Click a head to sort by it.</p>\n" +
         detail::html_number_tables(report) + "</section>\n";
  out += "<section><h2>What each system is</h2>\n" + detail::html_type_table(report) + "</section>\n";
  out += detail::html_definitions;
  return out + detail::html_end(w, report.made_by, detail::simulated_unless_told, detail::html_data(report),
                                {detail::html_script_seeds, detail::html_script_charts, detail::html_script_why,
                                 detail::html_script_export, detail::html_script_time});
}

} // namespace sluice
