// SPDX-License-Identifier: Apache-2.0
// Capacities as one page that needs no network.
#include "sluice/report/html.hpp"

#include "compare/capacity.hpp"
#include "compare/capacity_script.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace compared {

using namespace sluice;
using detail::escaped;

namespace {

/// What the page's script draws from: `systems` as the first part of report.html's script expects them.
std::string page_data(const CapacityReport& report) {
  constexpr int digits = 6;
  std::string text;
  JsonWriter json(text, true);
  json.begin_object().field("share", report.share).field("seeds", report.cells.front().workload.seeds.size());
  json.key("axes").begin_array();
  for (const Axis& axis : report.axes) write_axis(json, axis);
  json.end_array().line().key("cells").begin_array();
  for (const CapacityCell& cell : report.cells) write_at(json, cell.at, cell.label);
  json.end_array().line().key("systems").begin_array();
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const CapacityCell& cell = report.cells[i];
    const std::vector<std::uint64_t> served = seeds_served(cell.workload);
    for (const CapacityRow& row : cell.rows) {
      json.line().begin_object().field("name", row.name).field("deposit", row.deposit).field("control", row.control);
      json.field("scale", row.slo_scale).field("cell", i).field("remark", remark_of(report, row));
      const std::vector<double> rates = row.rates(report.lattice);
      const Interval of = geometric_interval(rates);
      const bool numbers = !std::isnan(of.mean);
      const std::vector<const CapacityRow*> order = ranked(cell, report.lattice, row.deposit, row.slo_scale);
      // Where seeds lie beyond an end there is no mean, but what half of them bear.
      json.key("capacity").rounded(numbers ? of.mean : number_of(median_of(rates)), digits);
      if (median_of(rates) == lies_below) json.field("beyond", "below");
      if (median_of(rates) == lies_above) json.field("beyond", "above");
      json.field("median", !numbers).field("rank", std::find(order.begin(), order.end(), &row) - order.begin());
      json.field("shown", numbers ? factor_text(of) : "median " + short_text(number_of(median_of(rates))));
      json.field("doubted", row.doubted() > 0).key("interval").begin_array();
      json.rounded(of.least, digits).rounded(of.most, digits).end_array();
      if (const CapacityRow* rival = rival_of(cell, report.lattice, row); rival != nullptr && rates.size() > 1)
        json.field("judged",
                   "against " + rival->name + ": " + capacity_pairs(rates, rival->rates(report.lattice)).verdict());
      json.key("seeds").begin_array();
      for (std::size_t seed = 0; seed < row.seeds.size(); ++seed) {
        json.begin_object().field("seed", served[seed]).key("probes").begin_array();
        for (const Probe& probe : row.seeds[seed].probes) {
          json.begin_array().rounded(report.lattice.rate(probe.step) * row.own_rates[seed], digits);
          json.rounded(probe.attained, digits).value(probe.livelocked ? 1 : 0).end_array();
        }
        json.end_array().end_object();
      }
      json.end_array().end_object();
    }
  }
  json.end_array().end_object();
  return text;
}

constexpr std::string_view plots = R"html(
<div class="bar no-print" role="group" aria-label="What the plots show">
<div class="row"><span class="name">Comparison</span><span id="cells" class="row"></span></div>
<div class="row"><span class="name">SLO scale</span><span id="scales" class="row"></span></div>
<div class="row"><span class="name">Delivery</span><span id="deposits" class="row"></span></div>
<div class="row"><span class="name">In colour (up to 6)</span><span id="names" class="row"></span></div>
</div>
<noscript><p><b>The plots need JavaScript, which this browser does not run.</b> All numbers are in the table below.</p></noscript>
<section><h2>Who bears which rate</h2><p class="sub">The highest arrival rate at which enough requests keep both promises.<span class="part"></span>
A question mark: attainment crosses the share more than once, and this is one crossing.</p><div id="legend"></div><div id="ranking"></div></section>
<section><h2>On the way there</h2><p class="sub">SLO attainment at every rate that was tried, a line a seed; the large mark is the capacity, the bar its 95 % interval.<span class="part"></span></p><div id="curves"></div></section>
<section><h2>Against what was swept</h2><p class="sub">An arrow at the foot: no rate meets the share; at the head: every rate that was tried does.</p><div id="against"></div></section>
)html";

} // namespace

std::string capacity_html(const CapacityReport& report) {
  const WorkloadReport& w = report.cells.front().workload;
  const CapacityRow& row = report.cells.front().rows.front();
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>Sluice capacities: " +
      escaped(w.trace) + "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>" + std::string{detail::html_style} +
      "</style></head>\n<body><main>\n<h1>Sluice capacities</h1>" + "<p class=\"sub\">The highest rate at which " +
      tidy_text(100 * report.share) + " % of the requests keep both SLOs; " + escaped(w.trace) +
      "</p>\n<dl class=\"facts\">";
  for (const Axis& axis : report.axes) {
    std::string values;
    for (const std::string& value : axis.values) values += (values.empty() ? "" : ", ") + value;
    out += detail::html_fact(axis.name, values);
  }
  out += detail::html_fact("requests", std::to_string(w.requests)) +
         detail::html_fact(w.seeds.empty() ? "seed" : "seeds", seeds_text(seeds_served(w))) +
         detail::html_fact("model", w.model) + detail::html_fact("device", w.device) +
         detail::html_fact("SLO: first token within", time_text(row.slo_ttft_s)) +
         detail::html_fact("SLO: TPOT within",
                           time_text(row.slo_tbt_s) + (report.cells.size() > 1 ? " (first row)" : "")) +
         detail::html_fact("rates",
                           fmt::format("steps of {:.2g} %, {:.3g} to {:.3g} times the workload's own",
                                       100 * (report.lattice.rate(1) - 1), report.lattice.rate(report.lattice.first()),
                                       report.lattice.rate(report.lattice.last())));
  if (!report.note.empty()) out += detail::html_fact("preset", report.note);
  out += "</dl>\n";
  if (!report.command.empty()) out += "<pre><code>" + escaped(report.command) + "</code></pre>\n";
  out += plots;
  out += "<section><h2>All numbers</h2><pre>" + escaped(capacity_text(report, "full")) + "</pre></section>\n";
  if (const std::string note = one_seed_note(w); !note.empty())
    out += "<p class=\"sub\">This is of " + escaped(note) + ".</p>\n";
  out += "<footer>Written by " + escaped(made_by().line()) +
         ". Simulated unless a fact above says otherwise.</footer>\n</main>\n<div id=\"tip\" "
         "role=\"status\"></div>\n<script type=\"application/json\" id=\"data\">" +
         page_data(report) + "</script>\n<script>";
  out += detail::html_script_base;
  out += detail::html_script_page;
  out += capacity_script;
  return out + "</script>\n</body></html>\n";
}

} // namespace compared
