// SPDX-License-Identifier: Apache-2.0
// A grid as one page that needs no network.
#include "sluice/report/html.hpp"

#include "compare/grid.hpp"
#include "compare/grid_script.hpp"
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

/// A figure that the page can draw, and a column of its table.
struct Figure {
  std::string_view key, name, hint, unit; ///< of report.json; for a person; how the script writes it
  double (*of)(const Metrics&);
  std::string_view in; ///< the table's unit: one a column, or an interval would be in another than its mean
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
      {"mean_e2e_s", "mean E2E", "lower is better", "time", [](M m) { return m.mean_e2e_s; }, ", s", short_text},
      {"longest_gap_s", "longest gap", "lower is better", "time", [](M m) { return m.longest_gap_s; }, ", s",
       short_text},
      {"stall_share", "stalled", "share of the time that iterations took", "share", [](M m) { return m.stall_share; },
       ", %", percent_text},
      {"times_preempted", "times preempted", "", "plain", [](M m) { return static_cast<double>(m.times_preempted); },
       "", short_text},
      {"refused", "refused", "requests", "plain", [](M m) { return static_cast<double>(m.refused); }, "", short_text}};
  return all;
}

/// What the page's script draws from: `systems` as the first part of report.html's script expects them.
std::string page_data(const Grid& grid) {
  constexpr int digits = 6;
  std::string text;
  JsonWriter json(text, true);
  json.begin_object().key("seeds").begin_array();
  for (const std::uint64_t seed : seeds_served(grid.cells.front().report.workload)) json.value(seed);
  json.end_array().key("axes").begin_array();
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
      json.line().begin_object().field("name", row.name).field("deposit", row.deposit).field("control", row.control);
      json.field("scale", row.slo_scale).field("livelocked", !row.livelock.empty()).field("cell", cell);
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

std::string number_table(const Grid& grid, bool deposit) {
  std::string rows;
  bool scales = false, cases = false;
  for (const Ran& cell : grid.cells) {
    cases |= !cell.label.empty();
    for (const SystemReport& row : cell.report.systems)
      scales |= row.slo_scale != grid.cells.front().report.systems.front().slo_scale;
  }
  for (const Ran& cell : grid.cells)
    for (const SystemReport& row : cell.report.systems) {
      if (row.deposit != deposit) continue;
      rows += std::string{row.control ? "<tr class=\"quiet\">" : "<tr>"} + "<th scope=\"row\" data-text=\"" +
              escaped(row.name) + "\">" + escaped(label_of(row)) + "</th>";
      for (const auto& [axis, value] : cell.at) {
        const std::optional<double> place = read_quantity(value); // by which the column is sorted
        rows += fmt::format("<td data-v=\"{}\">{}</td>", place ? fmt::format("{}", *place) : "", escaped(value));
      }
      if (cases) rows += "<td class=\"l\">" + escaped(cell.label) + "</td>";
      if (scales) rows += fmt::format("<td data-v=\"{}\">&times;{}</td>", row.slo_scale, tidy_text(row.slo_scale));
      for (const Figure& figure : figures()) {
        const Interval of = spread_of(row, figure.of);
        rows += "<td " + detail::html_number(of) + ">" + escaped(figure.text(of.mean)) +
                detail::html_half_width(of, figure.text) + "</td>";
      }
      rows += "</tr>\n";
    }
  if (rows.empty()) return {};
  const auto head = [](std::string_view name, std::string_view with) {
    return "<th scope=\"col\" data-sort tabindex=\"0\" " + std::string{with} + ">" + escaped(name) + "</th>";
  };
  const std::string_view exact = "data-exact";
  std::string heads = "<th scope=\"col\" class=\"l\">system</th>";
  for (const auto& [axis, value] : grid.cells.front().at) heads += head(axis, exact);
  if (cases) heads += "<th scope=\"col\" class=\"l\">case</th>";
  if (scales) heads += head("SLO", "data-exact data-key=\"slo_scale\"");
  for (const Figure& figure : figures())
    heads += head(std::string{figure.name} + std::string{figure.in}, "data-key=\"" + std::string{figure.key} + "\"");
  return "<div class=\"wide\"><table class=\"long\"><caption><b>" +
         std::string{deposit ? "Every comparison, with token deposit" : "Every comparison, without deposit"} +
         "</b></caption>\n<thead><tr>" + heads + "</tr></thead><tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string facts(const Grid& grid) {
  const WorkloadReport& w = grid.cells.front().report.workload;
  const auto same = [&grid](auto what) -> std::string {
    const std::string first = what(grid.cells.front().report.workload);
    for (const Ran& cell : grid.cells)
      if (what(cell.report.workload) != first) return "varies";
    return first;
  };
  std::string out;
  for (const Axis& axis : grid.axes) {
    std::string values;
    for (const std::string& value : axis.values) values += (values.empty() ? "" : ", ") + value;
    out += detail::html_fact(axis.name, values);
  }
  using W = const WorkloadReport&;
  out += detail::html_fact("trace", same([](W of) { return of.trace; }));
  out += detail::html_fact("requests", same([](W of) { return std::to_string(of.requests); }));
  out += detail::html_fact(w.seeds.empty() ? "seed" : "seeds", same([](W of) { return seeds_text(seeds_served(of)); }));
  out += detail::html_fact("model", same([](W of) { return of.model; }));
  out += detail::html_fact("device", same([](W of) { return of.device; }));
  out += detail::html_fact("token blocks of KV", same([](W of) { return std::to_string(of.budget_blocks); }));
  out += detail::html_fact("batch limit", same([](W of) { return std::to_string(of.batch_limit); }));
  out += detail::html_fact("base SLO: a token every", same([](W of) { return time_text(of.base_slo_tbt_s); }));
  out += detail::html_fact("SLO: first token within", same([](W of) { return time_text(of.slo_ttft_s); }));
  if (!grid.note.empty()) out += detail::html_fact("preset", grid.note);
  return out;
}

constexpr std::string_view plots = R"html(
<div class="bar no-print" role="group" aria-label="What the plot shows">
<div class="row"><span class="name">Figure</span><span id="figures" class="row"></span></div>
<div class="row"><span class="name">Against</span><span id="along" class="row"></span></div>
<div class="row"><span class="name">A panel each</span><span id="panels" class="row"></span></div>
<div class="row"><span class="name">At</span><span id="fixed" class="row"></span></div>
<div class="row"><span class="name">SLO scale</span><span id="scales" class="row"></span></div>
<div class="row"><span class="name">Delivery</span><span id="deposits" class="row"></span></div>
<div class="row"><span class="name">In colour (up to 6)</span><span id="names" class="row"></span></div>
</div>
<noscript><p><b>The plot needs JavaScript, which this browser does not run.</b> All numbers are in the table below.</p></noscript>
<section><h2>What becomes of each system</h2><p class="sub" id="what"></p><div id="legend"></div><div id="plots"></div></section>
)html";

} // namespace

std::string grid_html(const Grid& grid) {
  const WorkloadReport& w = grid.cells.front().report.workload;
  std::string over;
  for (const Axis& axis : grid.axes) over += (over.empty() ? "" : ", ") + axis.name;
  std::string out =
      detail::html_begin({"Sluice sweep over " + over + ": " + w.trace, "Sluice sweep over " + over,
                          std::to_string(grid.cells.size()) + " comparisons, " + w.trace, facts(grid), grid.command});
  out += plots;
  out += "<section><h2>All numbers</h2><p class=\"sub no-print\">Click a head to sort by it. docs/metrics.md defines "
         "each.</p>\n" +
         number_table(grid, false) + number_table(grid, true) + "</section>\n";
  return out + detail::html_end(w, made_by(), detail::simulated_unless_told, page_data(grid), {grid_script});
}

} // namespace compared
