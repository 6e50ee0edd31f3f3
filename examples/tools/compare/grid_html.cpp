// SPDX-License-Identifier: Apache-2.0
// Makes the HTML page of a grid: its data, its tables and its facts.
#include "sluice/report/columns.hpp"
#include "sluice/report/html.hpp"
#include "sluice/report/html_data.hpp"
#include "sluice/report/pages.hpp"

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
  MetricColumn column;
  std::string_view hint; ///< text for a reader

  /// The format that the page's script uses.
  [[nodiscard]] std::string_view format() const {
    const bool time = column.unit == MetricUnit::seconds || column.unit == MetricUnit::milliseconds;
    return column.unit == MetricUnit::share ? "share" : time ? "time" : "plain";
  }
  [[nodiscard]] NumberText text() const { return number_text(column.unit, true); }
};
constexpr std::string_view higher = "higher is better", lower = "lower is better";
constexpr std::string_view waits = "refused and unfinished ones wait to the end; lower is better";
constexpr Figure figures[] = {
    {metric_column("slo_attainment", "SLO attainment"), "of requests, that kept TTFT and TPOT; higher is better"},
    {metric_column("tbt_attainment", "TBT attainment"), higher},
    {metric_column("ttft_attainment", "TTFT attainment"), higher},
    {metric_column("goodput_requests_per_s"), "of requests that kept both; higher is better"},
    {metric_column("throughput_tokens_per_s"), higher},
    {metric_column("p99_tbt_s"), lower},
    {metric_column("p99_ttft_s"), lower},
    {metric_column("mean_e2e_all_s"), waits},
    {metric_column("longest_gap_all_s"), waits},
    {metric_column("stall_share", "stalled"), "share of the time that iterations took"},
    {metric_column("times_preempted", "times preempted"), ""},
    {metric_column("refused"), "requests"}};

/// Returns the data that report/pages/grid.js draws.
std::string page_data(const Grid& grid) {
  constexpr int digits = 6;
  std::string text;
  JsonWriter json(text, true);
  detail::begin_page_data(json, "grid", grid.cells.front().report.workload);
  json.key("axes").begin_array();
  for (const Axis& axis : grid.axes) write_axis(json, axis);
  json.end_array().line().key("figures").begin_array();
  for (const Figure& figure : figures) {
    json.begin_object().field("key", figure.column.key).field("name", figure.column.title);
    json.field("hint", figure.hint).field("unit", figure.format()).end_object();
  }
  json.end_array().line().key("cells").begin_array();
  for (const Ran& cell : grid.cells) write_at(json, cell.at, cell.label);
  json.end_array().line().key("systems").begin_array();
  for (std::size_t cell = 0; cell < grid.cells.size(); ++cell)
    for (const SystemReport& row : grid.cells[cell].report.systems) {
      detail::begin_page_row(json, row.name, row.deposit, row.control, row.slo_scale);
      json.field("livelocked", !row.livelock.empty()).field("cell", cell);
      json.key("m").begin_object();
      for (const Figure& figure : figures)
        json.key(figure.column.key).rounded(mean_of(seed_values(row, figure.column)), digits);
      json.end_object();
      if (row.per_seed.size() > 1) {
        json.key("interval").begin_object();
        for (const Figure& figure : figures) {
          const Interval of = spread_of(row, figure.column);
          json.key(figure.column.key).begin_array().rounded(of.least, digits).rounded(of.most, digits).end_array();
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
  while (i < judged_count && judged_figures[i].key != figure.column.key) ++i;
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
              escaped(row.name) + "\">" + escaped(label_of(row, true)) + "</th>" +
              place_cells(cell.at, cell.label, row.slo_scale, what);
      for (const Figure& figure : figures) {
        rows += detail::html_metric_cell(row, figure.column, figure.text());
        if (const std::size_t i = judged_by(figure, verdicts); i < judged_count)
          rows += detail::html_words_cell(verdicts.text(row, i));
      }
      rows += "</tr>\n";
    }
  if (rows.empty()) return {};
  std::string heads = detail::html_words_head("system") + place_heads(grid.cells.front().at, what);
  for (const Figure& figure : figures) {
    heads += detail::html_number_head(figure.column.one_line_head(true), figure.column.key);
    if (judged_by(figure, verdicts) < judged_count)
      heads += detail::html_words_head("judged", std::string{figure.column.key} + "_judged");
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
  out += detail::html_fact(w.seeds.empty() ? "seed" : seeds_or_windows(w.windows),
                           same([](W of) { return seeds_text(seeds_served(of)); }));
  out += detail::html_fact("model", same([](W of) { return of.model; }));
  out += detail::html_fact("device", same([](W of) { return of.device; }));
  out += detail::html_fact("token blocks of KV", same([](W of) { return std::to_string(of.budget_blocks); }));
  out += detail::html_fact("batch limit", same([](W of) { return std::to_string(of.batch_limit); }));
  if (!slos_by_class(w)) {
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
