// SPDX-License-Identifier: Apache-2.0
// Makes the HTML page of a grid: its data, its tables and its facts.
#include "sluice/report/html.hpp"

#include "compare/grid.hpp"
#include "compare/verdicts.hpp"
#include "shared/sizes.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace compared {

using namespace sluice;
using detail::escaped;

namespace {

/// A figure that the page can draw, with a column in its table.
struct Figure {
  std::string_view key, name, hint, unit; ///< key in report.json; text for a reader; format in the script
  double (*of)(const Metrics&);
  std::string_view in; ///< the table's unit, fixed per column, so that an interval has the unit of its mean
  std::string (*text)(double);
};
const std::vector<Figure>& figures() {
  using M = const Metrics&;
  static const std::vector<Figure> all{
      {"tbt_attainment", "TBT attainment", "higher is better", "share", [](M m) { return m.tbt_attainment; }, ", %",
       percent_text},
      {"slo_attainment", "SLO attainment", "of requests, that kept TTFT and TPOT; higher is better", "share",
       [](M m) { return m.slo_attainment; }, ", %", percent_text},
      {"ttft_attainment", "TTFT attainment", "higher is better", "share", [](M m) { return m.ttft_attainment; }, ", %",
       percent_text},
      {"goodput_requests_per_s", "goodput, requests/s", "of requests that kept both; higher is better", "plain",
       [](M m) { return m.goodput_requests_per_s; }, "", short_text},
      {"throughput_tokens_per_s", "tokens/s", "higher is better", "plain",
       [](M m) { return m.throughput_tokens_per_s; }, "", short_text},
      {"p99_tbt_s", "P99 TBT", "lower is better", "time", [](M m) { return m.p99_tbt_s; }, ", ms", milliseconds_text},
      {"p99_ttft_s", "P99 TTFT", "lower is better", "time", [](M m) { return m.p99_ttft_s; }, ", s", short_text},
      {"mean_e2e_all_s", "mean E2E of all", "refused and unfinished ones wait to the end; lower is better", "time",
       [](M m) { return m.mean_e2e_all_s; }, ", s", short_text},
      {"longest_gap_all_s", "longest gap of all", "refused and unfinished ones wait to the end; lower is better",
       "time", [](M m) { return m.longest_gap_all_s; }, ", s", short_text},
      {"stall_share", "stalled", "share of the time that iterations took", "share", [](M m) { return m.stall_share; },
       ", %", percent_text},
      {"times_preempted", "times preempted", "", "plain", [](M m) { return static_cast<double>(m.times_preempted); },
       "", short_text},
      {"refused", "refused", "requests", "plain", [](M m) { return static_cast<double>(m.refused); }, "", short_text}};
  return all;
}

/// Returns the data that report/pages/grid.js draws.
std::string page_data(const Grid& grid) {
  constexpr int digits = 6;
  std::string text;
  JsonWriter json(text, true);
  detail::begin_page_data(json, "grid", grid.cells.front().report.workload);
  json.key("axes").begin_array();
  for (const Axis& axis : grid.axes) write_axis(json, axis);
  json.end_array().line().key("figures").begin_array();
  for (const Figure& figure : figures()) {
    json.begin_object().field("key", figure.key).field("name", figure.name).field("hint", figure.hint);
    json.field("unit", figure.unit).end_object();
  }
  json.end_array().line().key("cells").begin_array();
  for (const Ran& cell : grid.cells) write_at(json, cell.at, cell.label);
  json.end_array().line().key("systems").begin_array();
  for (std::size_t cell = 0; cell < grid.cells.size(); ++cell)
    for (const SystemReport& row : grid.cells[cell].report.systems) {
      detail::begin_page_row(json, row.name, row.deposit, row.control, row.slo_scale);
      json.field("livelocked", !row.livelock.empty()).field("cell", cell);
      json.key("m").begin_object();
      for (const Figure& figure : figures()) json.key(figure.key).rounded(spread_of(row, figure.of).mean, digits);
      json.end_object();
      if (row.per_seed.size() > 1) {
        json.key("interval").begin_object();
        for (const Figure& figure : figures()) {
          const Interval of = spread_of(row, figure.of);
          json.key(figure.key).begin_array().rounded(of.least, digits).rounded(of.most, digits).end_array();
        }
        json.end_object();
      }
      json.end_object();
    }
  json.end_array().end_object();
  return text;
}

/// Returns the index of a figure among the figures by which rows are judged. `judged_count`: it is not one of them, or
/// there is only one seed.
std::size_t judged_by(const Figure& figure, const Verdicts& verdicts) {
  std::size_t i = verdicts.of.empty() ? judged_count : 0;
  while (i < judged_count && judged_figures[i].key != figure.key) ++i;
  return i;
}

std::string number_table(const Grid& grid, const Verdicts& verdicts, bool deposit) {
  std::string rows;
  Varied what;
  for (const Ran& cell : grid.cells) {
    what.cases |= !cell.label.empty();
    for (const SystemReport& row : cell.report.systems)
      what.scales |= row.slo_scale != grid.cells.front().report.systems.front().slo_scale;
  }
  for (const Ran& cell : grid.cells)
    for (const SystemReport& row : cell.report.systems) {
      if (row.deposit != deposit) continue;
      rows += std::string{row.control ? "<tr class=\"quiet\">" : "<tr>"} + "<th scope=\"row\" data-text=\"" +
              escaped(row.name) + "\">" + escaped(label_of(row)) + "</th>" +
              place_cells(cell.at, cell.label, row.slo_scale, what);
      for (const Figure& figure : figures()) {
        rows += detail::html_mean_cell(spread_of(row, figure.of), figure.text);
        if (const std::size_t i = judged_by(figure, verdicts); i < judged_count)
          rows += detail::html_words_cell(verdicts.text(row, i));
      }
      rows += "</tr>\n";
    }
  if (rows.empty()) return {};
  std::string heads = detail::html_words_head("system") + place_heads(grid.cells.front().at, what);
  for (const Figure& figure : figures()) {
    heads += detail::html_number_head(std::string{figure.name} + std::string{figure.in}, figure.key);
    if (judged_by(figure, verdicts) < judged_count)
      heads += detail::html_words_head("judged", std::string{figure.key} + "_judged");
  }
  std::string note = escaped(verdicts.note(grid.baseline, rows));
  if (!note.empty()) note = "<p class=\"sub\">" + note + "</p>\n";
  return detail::html_plain_table(
             fmt::format("<b>Every comparison, {} deposit</b>", deposit ? "with token" : "without"), heads, rows) +
         note;
}

std::string facts(const Grid& grid) {
  const WorkloadReport& w = grid.cells.front().report.workload;
  const auto same = [&grid](auto what) -> std::string {
    const std::string first = what(grid.cells.front().report.workload);
    for (const Ran& cell : grid.cells)
      if (what(cell.report.workload) != first) return "varies";
    return first;
  };
  std::string out = axis_facts(grid.axes);
  using W = const WorkloadReport&;
  out += detail::html_fact("trace", same([](W of) { return of.trace; }));
  out += detail::html_fact("requests", same([](W of) { return std::to_string(of.requests); }));
  out += detail::html_fact(w.seeds.empty() ? "seed" : "seeds", same([](W of) { return seeds_text(seeds_served(of)); }));
  out += detail::html_fact("model", same([](W of) { return of.model; }));
  out += detail::html_fact("device", same([](W of) { return of.device; }));
  out += detail::html_fact("token blocks of KV", same([](W of) { return std::to_string(of.budget_blocks); }));
  out += detail::html_fact("batch limit", same([](W of) { return std::to_string(of.batch_limit); }));
  if (w.slo_classes.empty()) {
    out += detail::html_fact("base SLO: a token every", same([](W of) { return time_text(of.base_slo_tbt_s); }));
    out += detail::html_fact("SLO: first token within", same([](W of) { return time_text(of.slo_ttft_s); }));
  } else {
    out += detail::html_fact("SLO", same(classes_line));
  }
  if (!grid.note.empty()) out += detail::html_fact("note", grid.note);
  return out;
}

} // namespace

std::string place_heads(const std::vector<std::pair<std::string, std::string>>& at, const Varied& what) {
  std::string heads;
  for (const auto& [axis, value] : at) heads += detail::html_number_head(axis, axis, true);
  if (what.cases) heads += detail::html_words_head("case");
  if (what.scales) heads += detail::html_number_head("SLO", "slo_scale", true);
  return heads;
}

std::string place_cells(const std::vector<std::pair<std::string, std::string>>& at, const std::string& label,
                        double slo_scale, const Varied& what) {
  std::string cells;
  for (const auto& [axis, value] : at) {
    const std::optional<double> place = read_quantity(value); // the column's sort key
    cells += fmt::format("<td data-v=\"{}\">{}</td>", place ? fmt::format("{}", *place) : "", escaped(value));
  }
  if (what.cases) cells += detail::html_words_cell(label);
  if (what.scales) cells += fmt::format("<td data-v=\"{}\">&times;{}</td>", slo_scale, tidy_text(slo_scale));
  return cells;
}

std::string axis_facts(const std::vector<Axis>& axes) {
  std::string out;
  for (const Axis& axis : axes) {
    std::string values;
    for (const std::string& value : axis.values) values += (values.empty() ? "" : ", ") + value;
    out += detail::html_fact(axis.name, values);
  }
  return out;
}

std::string grid_html(const Grid& grid) {
  const WorkloadReport& w = grid.cells.front().report.workload;
  std::string over;
  for (const Axis& axis : grid.axes) over += (over.empty() ? "" : ", ") + axis.name;
  detail::HtmlPage page;
  page.heading = "Sluice sweep over " + over;
  page.title = page.heading + ": " + w.trace;
  page.under = std::to_string(grid.cells.size()) + " comparisons, " + w.trace;
  page.facts = facts(grid);
  page.command = grid.command;
  const Verdicts verdicts = verdicts_of(grid.cells, grid.baseline);
  page.sections = pages::filled(
      pages::grid_html, {{"numbers", number_table(grid, verdicts, false) + number_table(grid, verdicts, true)}});
  page.data = page_data(grid);
  page.script = pages::grid_script;
  return detail::html_page(page, w, made_by());
}

} // namespace compared
