// SPDX-License-Identifier: Apache-2.0
// explore.html: the page of an exploration: its data, its table and its finding.
#include "sluice/report/html.hpp"

#include "sluice/report/columns.hpp"
#include "sluice/report/html_data.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/pages.hpp"

#include "explore/exploration.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace explored {

using namespace sluice;
using detail::escaped;

namespace {

/// "+3.1 points against FutureMemory: better, wins 8 of 8".
std::string judgement(const Exploration& found, const Row& row) {
  return fmt::format("{} points against {}: {}", detail::signed_text(100 * row.against.difference.mean),
                     found.reference, verdict_of(row.against));
}

/// What the page draws.
constexpr auto drawn = columns_of("slo_attainment", "tbt_attainment", "per_token_attainment", "mean_e2e_all_s",
                                  "longest_gap_all_s", "throughput_tokens_per_s", "refused");

/// The data that report/pages/exploration.js draws.
std::string page_data(const Exploration& found) {
  constexpr int digits = 6;
  std::string text;
  JsonWriter json(text, true);
  detail::begin_page_data(json, "exploration", found.workload);
  json.key("systems").begin_array();
  for (const Row& row : found.rows) {
    detail::begin_page_row(json, row.name, found.deposit, row.control, found.slo_scale);
    json.field("published", row.published()).field("own", row.own).field("rank", row.rank);
    json.field("oracle", row.oracle).field("livelocked", !row.livelock.empty());
    if (found.of_seeds()) {
      const Interval of = spread_of(row, metric_column("slo_attainment"), found.workload.windows);
      json.key("interval").begin_array().rounded(of.least, digits).rounded(of.most, digits).end_array();
      json.field("judged",
                 found.reference.empty() || row.name == found.reference ? std::string{} : judgement(found, row));
    }
    json.field("pareto", row.pareto).field("same", row.same_as ? found.rows[*row.same_as].name : std::string{});
    if (!row.listed) {
      json.field("number", row.number).key("models").begin_array();
      for (std::size_t r = 0; r < found.space.roles.size(); ++r) json.value(found.space.model_of(row.number, r));
      json.end_array();
    }
    json.key("m").begin_object();
    for (const MetricColumn& column : drawn) {
      // A livelocked engine has no attainment over the workload, so the plot leaves it out.
      const bool none = column.key == "slo_attainment" && !row.livelock.empty();
      json.key(column.key)
          .rounded(none ? Interval::absent : spread_of(row, column, found.workload.windows).mean, digits);
    }
    json.end_object().end_object();
  }
  json.line().end_array().line().key("roles").begin_array();
  for (const RoleChoices& role : found.space.roles) {
    json.begin_object().field("role", role.role).key("models").begin_array();
    for (const std::string& model : role.models) json.value(model);
    json.end_array().end_object();
  }
  json.end_array().line().key("originals").begin_array();
  for (const Combination& combination : found.space.combinations)
    if (combination.works)
      json.value(combination.original);
    else
      json.null();
  json.end_array().line().key("marginals").begin_array();
  for (const RoleMarginals& role : found.marginals) {
    if (role.models.size() < 2) continue;
    json.begin_object().field("role", role.role).key("spread").rounded(role.spread, digits).key("models").begin_array();
    for (const Marginal& model : role.models) {
      json.begin_object().field("combinations", model.combinations).key("best").rounded(model.best, digits);
      json.key("mean").rounded(model.mean, digits).field("pairs", model.pairs).key("gain").rounded(model.gain, digits);
      if (const Interval& of = model.gain_of_seeds; of.known())
        json.key("interval").begin_array().rounded(of.least, digits).rounded(of.most, digits).end_array();
      json.field("better", model.better).field("worse", model.worse).end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return text;
}

/// One table of all rows. A click on a head sorts it; it is readable without a script.
std::string row_table(const Exploration& found) {
  constexpr auto columns =
      columns_of("slo_attainment", metric_column("goodput_requests_per_s", "goodput, req/s"), "tbt_attainment",
                 "per_token_attainment", "ttft_attainment", "mean_e2e_all_s", "longest_gap_all_s",
                 "throughput_tokens_per_s", "stall_share", "times_preempted", "refused");
  std::string heads = detail::html_number_head("rank", "", true) + detail::html_words_head("engine", "name");
  for (const MetricColumn& column : columns) heads += detail::html_number_head(column.one_line_head(true), column.key);
  if (!found.reference.empty())
    heads += detail::html_number_head("less " + found.reference + ", points", "difference_points") +
             detail::html_words_head("judged");
  std::string out;
  for (const Row& row : found.rows) {
    out += row.control ? "<tr class=\"control\">" : "<tr>";
    out += row.control ? "<td data-v=\"\">&ndash;</td>" : fmt::format("<td data-v=\"{0}\">{0}</td>", row.rank);
    out += "<td class=\"code\" data-text=\"" + escaped(row.name) + "\">";
    std::vector<std::string_view> marks = marks_of(row, true);
    std::erase(marks, "livelocked"); // its sentence follows
    if (row.listed) out += "<b>" + escaped(marked(row.name, marks)) + "</b> ";
    out += "<code>" + escaped(row.engine) + "</code>" + (row.listed ? "" : marked("", marks));
    if (row.same_as)
      out += " <small class=\"sub\">same figures as " +
             escaped(found.rows[*row.same_as].listed ? found.rows[*row.same_as].name : "the row above") + "</small>";
    if (!row.livelock.empty()) out += " <small class=\"sub\">" + escaped(row.livelock) + "</small>";
    out += "</td>";
    for (const MetricColumn& column : columns)
      out += detail::html_mean_cell(spread_of(row, column, found.workload.windows), number_text(column.unit));
    if (!found.reference.empty()) {
      const Interval& difference = row.against.difference;
      const double points = 100 * difference.mean;
      const bool itself = row.name == found.reference || std::isnan(points);
      out += itself
                 ? std::string{"<td data-v=\"0\"></td><td></td>"}
                 : "<td " +
                       detail::html_number({points, 100 * difference.least, 100 * difference.most, difference.count}) +
                       ">" + detail::signed_text(points) + "</td>" + detail::html_words_cell(verdict_of(row.against));
    }
    out += "</tr>\n";
  }
  return detail::html_plain_table("<b>Every engine and system</b>", heads, out);
}

std::string finding(const Exploration& found) {
  const Row* published = found.best(true);
  const Row* own = found.best(false);
  if (published == nullptr || own == nullptr) return {};
  const std::vector<const Row*> better = found.beats_published();
  const auto figures = [](const Row& row) {
    return fmt::format("SLO attainment {} %, mean E2E of all {}, longest gap of all {}",
                       percent_text(row.metrics.slo_attainment), time_text(row.metrics.mean_e2e_all_s),
                       time_text(row.metrics.longest_gap_all_s));
  };
  std::string out = "<section><h2>What it found</h2>\n<p>";
  if (better.empty())
    out += "No composition has a higher SLO attainment here than the best published system, <b>" +
           escaped(published->name) + "</b> (" + figures(*published) + ").";
  else
    out += fmt::format(
        "<b>{}</b> compositions (with equal figures counted once) have a higher SLO attainment than every published "
        "system; the best of those is <b>{}</b> ({}).",
        better.size(), escaped(published->name), figures(*published));
  if (found.of_seeds() && !better.empty()) {
    std::size_t surely = 0;
    for (const Row* row : better) surely += row->against.tie() ? 0U : 1U;
    out += fmt::format(" These are means of {} {}; in paired comparisons <b>{}</b> of them {} better and not tied.",
                       found.workload.seeds.size(), seeds_or_windows(found.workload.windows), surely,
                       surely == 1 ? "is" : "are");
  }
  out += " The best composition (" + figures(*own) + (better.empty() ? "):" : "), to paste:");
  return out + "</p>\n<pre><code>using Found = " + escaped(own->engine) + ";</code></pre></section>\n";
}

} // namespace

std::string exploration_html(const Exploration& found) {
  const WorkloadReport& w = found.workload;
  ComparisonReport facts{w, {}};
  SystemReport slo;
  slo.slo_scale = found.slo_scale;
  slo.slo_tbt_s = found.slo_tbt_s;
  slo.slo_ttft_s = w.slo_ttft_s;
  slo.deposit = found.deposit;
  facts.systems.push_back(slo);
  std::size_t works = 0;
  for (const Combination& combination : found.space.combinations)
    if (combination.works) ++works;
  const std::size_t all = found.space.combinations.size(), engines = found.space.engines.size();
  facts.workload.notes.emplace_back("Delivery", found.deposit ? "token deposit" : "immediate");
  facts.workload.notes.emplace_back(
      "Product", fmt::format("{} combinations of {} roles: {} engines; {} repeat one of them, {} do not work together",
                             all, found.space.roles.size(), engines, works - engines, all - works));
  detail::HtmlPage page;
  page.under = w.model + " on " + w.device + ", " + w.trace;
  page.heading = "Sluice exploration";
  page.title = page.heading + ": " + w.trace + ", " + w.model + " on " + w.device;
  page.facts = detail::html_facts(facts);
  page.command = w.command;
  page.sections = pages::filled(
      pages::exploration_html,
      {{"finding", finding(found)}, {"numbers", row_table(found)}, {"definitions", pages::definitions_html}});
  page.data = page_data(found);
  page.script = pages::exploration_script;
  page.simulated = "Simulated.";
  return detail::html_page(page, w, made_by());
}

} // namespace explored
