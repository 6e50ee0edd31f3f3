// SPDX-License-Identifier: Apache-2.0
// Makes the HTML page of capacities: its data, its tables and its facts.
#include "sluice/report/html.hpp"
#include "sluice/report/html_data.hpp"
#include "sluice/report/pages.hpp"

#include "compare/capacity.hpp"
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

/// Returns the data that report/pages/capacity.js draws.
std::string page_data(const CapacityReport& report) {
  constexpr int digits = 6;
  std::string text;
  JsonWriter json(text, true);
  detail::begin_page_data(json, "capacity", report.cells.front().workload);
  json.field("share", report.share).key("axes").begin_array();
  for (const Axis& axis : report.axes) write_axis(json, axis);
  json.end_array().line().key("cells").begin_array();
  for (const CapacityCell& cell : report.cells) write_at(json, cell.at, cell.label);
  json.end_array().line().key("systems").begin_array();
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    const CapacityCell& cell = report.cells[i];
    const std::vector<std::uint64_t> served = seeds_served(cell.workload);
    for (const CapacityRow& row : cell.rows) {
      detail::begin_page_row(json, row.name, row.deposit, row.control, row.slo_scale);
      json.field("cell", i).field("remark", remark_of(report, row));
      const std::vector<double> rates = row.rates(report.lattice);
      const Interval of = geometric_interval(rates, fewest_for_rate, row.windows);
      const bool numbers = !std::isnan(of.mean);
      const double median = median_of(rates);
      const std::vector<const CapacityRow*> order = ranked(cell, report.lattice, row.deposit, row.slo_scale);
      // If a seed's capacity is beyond the tried rates, there is no mean, so the median replaces it.
      json.key("capacity").rounded(numbers ? of.mean : number_of(median), digits);
      json.key("mean").rounded(of.mean, digits).key("middle").rounded(number_of(median), digits);
      if (median == lies_below) json.field("beyond", "below");
      if (median == lies_above) json.field("beyond", "above");
      json.field("rank", std::find(order.begin(), order.end(), &row) - order.begin());
      json.field("shown", numbers ? factor_text(of) : "median " + short_text(number_of(median)));
      json.field("doubted", row.doubted() > 0).key("interval").begin_array();
      json.rounded(of.least, digits).rounded(of.most, digits).end_array();
      if (const CapacityRow* rival = rival_of(cell, report.lattice, row); rival != nullptr && rates.size() > 1)
        json.field("judged", "against " + rival->name + ": " +
                                 capacity_pairs(rates, rival->rates(report.lattice), row.windows).verdict());
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
  // Among the rows of several comparisons, controls are sorted like all other rows.
  const bool apart = row.control && report.cells.size() == 1 && !what.scales;
  std::string out = std::string{apart ? "<tr class=\"control\">" : "<tr>"} + "<th scope=\"row\" data-text=\"" +
                    escaped(row.name) + "\">" + escaped(row.label()) + "</th>";
  const auto number = [&out](const Interval& of, const std::string& text) {
    out += "<td " + detail::html_number(of) + ">" + text + "</td>";
  };
  out += place_cells(cell.at, cell.label, row.slo_scale, what);
  const std::vector<double> rates = row.rates(report.lattice);
  const Interval rate = geometric_interval(rates, fewest_for_rate, row.windows);
  const Interval scale = geometric_interval(row.scales(report.lattice), fewest_for_scale, row.windows);
  number(rate, escaped(factor_text(rate)));
  if (what.seeds) {
    const double median = median_of(rates);
    out += median == lies_below ? "<td data-v=\"-Infinity\">below all</td>"
           : median == lies_above
               ? "<td data-v=\"Infinity\">above all</td>"
               : "<td data-v=\"" + fixed_text(number_of(median), 9) + "\">" + short_text(number_of(median)) + "</td>";
  }
  number(scale, escaped(factor_text(scale)));
  number(Interval{row.attained()}, escaped(percent_text(row.attained())));
  if (what.seeds) {
    if (const CapacityRow* rival = rival_of(cell, report.lattice, row)) {
      const CapacityPairs of = capacity_pairs(rates, rival->rates(report.lattice), row.windows);
      number(of.ratio,
             std::isfinite(of.ratio.mean) ? ratio_text(of.ratio, " <small>", " &hellip; ", "</small>") : "&ndash;");
      out += detail::html_words_cell(rival->name) + detail::html_words_cell(of.verdict());
    } else {
      out += "<td data-v=\"\">&ndash;</td><td class=\"l\"></td><td class=\"l\"></td>";
    }
  }
  return out + "<td class=\"words\">" + escaped(remark_of(report, row)) + "</td></tr>\n";
}

/// Writes every capacity with a deposit, or without: ordered by comparison, then by SLO, the highest first.
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
  using detail::html_number_head, detail::html_words_head;
  std::string heads = html_words_head("system") + place_heads(report.cells.front().at, what);
  heads += html_number_head("requests/s", "requests_per_s");
  if (what.seeds) heads += html_number_head("median", "median_requests_per_s", true);
  heads += html_number_head("of the rate", "rate_scale") + html_number_head("SLO there, %", "slo_attainment");
  if (what.seeds)
    heads += html_number_head("difference, %", "ratio") + html_words_head("against") + html_words_head("judged");
  const std::string caption =
      std::string{deposit ? "<b>Capacities, with token deposit</b>" : "<b>Capacities, without deposit</b>"} +
      (what.seeds && report.cells.front().workload.windows
           ? "<br>geometric means of the windows, and the median: what at least half of them sustain"
       : what.seeds
           ? "<br>geometric means of the seeds &times;/&divide; the factor of the 95 % interval, if there is one, and "
             "the median: what at least half of them sustain"
           : "");
  return detail::html_plain_table(caption, heads + html_words_head("remark"), rows);
}

std::string facts(const CapacityReport& report) {
  const WorkloadReport& w = report.cells.front().workload;
  const CapacityRow& row = report.cells.front().rows.front();
  std::string out = axis_facts(report.axes);
  out += detail::html_fact("requests", std::to_string(w.requests)) +
         detail::html_fact(w.seeds.empty() ? "seed" : seeds_or_windows(w.windows), seeds_text(seeds_served(w))) +
         detail::html_fact("model", w.model) + detail::html_fact("device", w.device) +
         detail::html_fact("SLO", kept_slos(w, row) +
                                      (report.cells.size() > 1 || varied(report).scales ? " (first row)" : "")) +
         detail::html_fact("rates",
                           fmt::format("steps of {:.2g} %, {:.3g} to {:.3g} times the workload's own",
                                       100 * (report.lattice.rate(1) - 1), report.lattice.rate(report.lattice.first()),
                                       report.lattice.rate(report.lattice.last())));
  if (!report.note.empty()) out += detail::html_fact("note", report.note);
  return out;
}

} // namespace

std::string capacity_html(const CapacityReport& report) {
  const WorkloadReport& w = report.cells.front().workload;
  detail::HtmlPage page;
  page.heading = "Sluice capacities";
  page.title = page.heading + ": " + w.trace;
  page.under =
      "The highest rate at which " + tidy_text(100 * report.share) + " % of the requests meet both SLOs; " + w.trace;
  page.facts = facts(report);
  page.command = report.command;
  page.sections =
      pages::filled(pages::capacity_html, {{"numbers", number_table(report, false) + number_table(report, true)}});
  page.data = page_data(report);
  page.script = pages::capacity_script;
  return detail::html_page(page, w, made_by());
}

} // namespace compared
