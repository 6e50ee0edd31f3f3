// SPDX-License-Identifier: Apache-2.0
// Capacities as one page that needs no network.
#include "sluice/report/html.hpp"

#include "compare/capacity.hpp"
#include "compare/capacity_script.hpp"
#include "shared/sizes.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
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
  json.begin_object().field("share", report.share).key("seeds").begin_array();
  for (const std::uint64_t seed : seeds_served(report.cells.front().workload)) json.value(seed);
  json.end_array().key("axes").begin_array();
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
      const double median = median_of(rates);
      const std::vector<const CapacityRow*> order = ranked(cell, report.lattice, row.deposit, row.slo_scale);
      // Where seeds lie beyond an end there is no mean, but what half of them bear.
      json.key("capacity").rounded(numbers ? of.mean : number_of(median), digits);
      json.key("mean").rounded(of.mean, digits).key("middle").rounded(number_of(median), digits);
      if (median == lies_below) json.field("beyond", "below");
      if (median == lies_above) json.field("beyond", "above");
      json.field("rank", std::find(order.begin(), order.end(), &row) - order.begin());
      json.field("shown", numbers ? factor_text(of) : "median " + short_text(number_of(median)));
      json.field("doubted", row.doubted() > 0).key("interval").begin_array();
      json.rounded(of.least, digits).rounded(of.most, digits).end_array();
      if (const CapacityRow* rival = rival_of(cell, report.lattice, row); rival != nullptr && rates.size() > 1)
        json.field("judged",
                   "against " + rival->name + ": " + capacity_pairs(rates, rival->rates(report.lattice)).verdict());
      json.key("seeds").begin_array();
      for (std::size_t seed = 0; seed < row.seeds.size(); ++seed) {
        json.begin_object().field("seed", served[seed]).key("capacity").rounded(number_of(rates[seed]), digits);
        json.key("probes").begin_array();
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

/// Whose capacities stand in one row of heads: what varies between them, and whether there are seeds to judge by.
struct Varied {
  bool seeds = false, scales = false, cases = false;
};
Varied varied(const CapacityReport& report) {
  Varied what;
  what.seeds = report.cells.front().workload.seeds.size() > 1;
  for (const CapacityCell& cell : report.cells) {
    what.cases |= !cell.label.empty();
    for (const CapacityRow& row : cell.rows)
      what.scales |= row.slo_scale != report.cells.front().rows.front().slo_scale;
  }
  return what;
}

std::string table_row(const CapacityReport& report, const CapacityCell& cell, const CapacityRow& row,
                      const Varied& what) {
  // Among the rows of several comparisons a control sorts as all others do.
  const bool apart = row.control && report.cells.size() == 1 && !what.scales;
  std::string out = std::string{apart ? "<tr class=\"control\">" : "<tr>"} + "<th scope=\"row\" data-text=\"" +
                    escaped(row.name) + "\">" + escaped(row.name) + (row.control ? " (control)" : "") + "</th>";
  const auto number = [&out](const Interval& of, const std::string& text) {
    out += "<td " + detail::html_number(of) + ">" + text + "</td>";
  };
  for (const auto& [axis, value] : cell.at) {
    const std::optional<double> place = read_quantity(value); // by which the column is sorted
    out += fmt::format("<td data-v=\"{}\">{}</td>", place ? fmt::format("{}", *place) : "", escaped(value));
  }
  if (what.cases) out += "<td class=\"l\">" + escaped(cell.label) + "</td>";
  if (what.scales) out += fmt::format("<td data-v=\"{}\">&times;{}</td>", row.slo_scale, tidy_text(row.slo_scale));
  const std::vector<double> rates = row.rates(report.lattice);
  const Interval rate = geometric_interval(rates), scale = geometric_interval(row.scales(report.lattice));
  number(rate, escaped(factor_text(rate)));
  if (what.seeds) {
    const double median = median_of(rates);
    out += median == lies_below ? "<td data-v=\"-Infinity\">below all</td>"
           : median == lies_above
               ? "<td data-v=\"Infinity\">above all</td>"
               : "<td data-v=\"" + fixed_text(number_of(median), 9) + "\">" + short_text(number_of(median)) + "</td>";
  }
  number(scale, escaped(factor_text(scale)));
  number(row.attained(),
         escaped(percent_text(row.attained().mean)) + detail::html_half_width(row.attained(), percent_text));
  if (what.seeds) {
    if (const CapacityRow* rival = rival_of(cell, report.lattice, row)) {
      const CapacityPairs of = capacity_pairs(rates, rival->rates(report.lattice));
      const auto percent = [](double ratio) { return detail::signed_text(100 * (ratio - 1)); };
      number(of.ratio, of.ratio.known() ? percent(of.ratio.mean) + " <small>" + percent(of.ratio.least) + " &hellip; " +
                                              percent(of.ratio.most) + "</small>"
                                        : "&ndash;");
      out += "<td class=\"l\">" + escaped(rival->name) + "</td><td class=\"l\">" + escaped(of.verdict()) + "</td>";
    } else {
      out += "<td data-v=\"\">&ndash;</td><td class=\"l\"></td><td class=\"l\"></td>";
    }
  }
  return out + "<td class=\"words\">" + escaped(remark_of(report, row)) + "</td></tr>\n";
}

/// Every capacity with a deposit, or without: by comparison, by SLO, the highest first.
std::string number_table(const CapacityReport& report, bool deposit) {
  const Varied what = varied(report);
  std::string rows;
  for (const CapacityCell& cell : report.cells) {
    std::set<double> scales;
    for (const CapacityRow& row : cell.rows) scales.insert(row.slo_scale);
    for (const double scale : scales)
      for (const CapacityRow* row : ranked(cell, report.lattice, deposit, scale))
        rows += table_row(report, cell, *row, what);
  }
  if (rows.empty()) return {};
  const auto head = [](std::string_view name, std::string_view key, bool exact = false) {
    return "<th scope=\"col\" data-sort tabindex=\"0\" data-key=\"" + escaped(key) + "\"" +
           (exact ? " data-exact>" : ">") + escaped(name) + "</th>";
  };
  const auto words = [](std::string_view name) {
    return "<th scope=\"col\" class=\"l\">" + std::string{name} + "</th>";
  };
  std::string heads = words("system");
  for (const auto& [axis, value] : report.cells.front().at) heads += head(axis, axis, true);
  if (what.cases) heads += words("case");
  if (what.scales) heads += head("SLO", "slo_scale", true);
  heads += head("requests/s", "requests_per_s");
  if (what.seeds) heads += head("median", "median_requests_per_s", true);
  heads += head("of the rate", "rate_scale") + head("SLO there, %", "slo_attainment");
  if (what.seeds) heads += head("difference, %", "ratio") + words("against") + words("judged");
  return "<div class=\"wide\"><table class=\"long\"><caption><b>" +
         std::string{deposit ? "Capacities, with token deposit" : "Capacities, without deposit"} + "</b>" +
         (what.seeds ? "<br>geometric means of the seeds &times;/&divide; the factor of the 95 % interval, and the "
                       "median: what at least half of them bear"
                     : "") +
         "</caption>\n<thead><tr>" + heads + words("remark") + "</tr></thead><tbody>\n" + rows +
         "</tbody></table></div>\n";
}

std::string facts(const CapacityReport& report) {
  const WorkloadReport& w = report.cells.front().workload;
  const CapacityRow& row = report.cells.front().rows.front();
  std::string out;
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
                           time_text(row.slo_tbt_s) +
                               (report.cells.size() > 1 || varied(report).scales ? " (first row)" : "")) +
         detail::html_fact("rates",
                           fmt::format("steps of {:.2g} %, {:.3g} to {:.3g} times the workload's own",
                                       100 * (report.lattice.rate(1) - 1), report.lattice.rate(report.lattice.first()),
                                       report.lattice.rate(report.lattice.last())));
  if (!report.note.empty()) out += detail::html_fact("preset", report.note);
  return out;
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
  std::string out = detail::html_begin(
      {"Sluice capacities: " + w.trace, "Sluice capacities",
       "The highest rate at which " + tidy_text(100 * report.share) + " % of the requests keep both SLOs; " + w.trace,
       facts(report), report.command});
  out += plots;
  out += "<section><h2>All numbers</h2><p class=\"sub no-print\">Click a head to sort by it. docs/sweeps.md says what "
         "each is.</p>\n" +
         number_table(report, false) + number_table(report, true) + "</section>\n";
  return out + detail::html_end(w, made_by(), detail::simulated_unless_told, page_data(report), {capacity_script});
}

} // namespace compared
