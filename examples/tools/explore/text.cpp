// SPDX-License-Identifier: Apache-2.0
// An exploration as text for a terminal.
#include "sluice/report/columns.hpp"
#include "sluice/report/number_text.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/seed_tables.hpp"

#include "explore/exploration.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace explored {

using namespace sluice;

namespace {

std::string points(double share) { return fmt::format("{:+.1f}", 100 * share); }

constexpr auto ranking_columns = columns_of(
    metric_column("slo_attainment", "SLO", "%"), "goodput_requests_per_s", metric_column("tbt_attainment", "TBT", "%"),
    metric_column("per_token_attainment", "per token", "%"), metric_column("ttft_attainment", "TTFT", "%"),
    metric_column("mean_e2e_all_s", "mean E2E", "of all, s"), metric_column("longest_gap_all_s", "gap", "of all, s"),
    metric_column("throughput_tokens_per_s", "through-", "put, t/s"), metric_column("refused", "", "refused"));

/// Cells under heads, aligned to the right; the engine, of any length, follows them.
class Ranking {
 public:
  explicit Ranking(const Exploration& found) : found_(found) {
    std::vector<std::string> tops{""}, heads{"rank"};
    for (const MetricColumn& column : ranking_columns) tops.emplace_back(column.group), heads.emplace_back(column.head);
    if (!found.reference.empty())
      for (const auto& [top, head] :
           {std::pair{"less " + found.reference, "points"}, std::pair{std::string{}, "judged"}})
        tops.push_back(top), heads.emplace_back(head);
    tops.emplace_back("");
    heads.emplace_back("engine");
    lines_ = {std::move(tops), std::move(heads)};
  }
  void add(const Row& row, std::size_t alike) {
    std::vector<std::string> cells{row.control ? "-" : std::to_string(row.rank)};
    for (const MetricColumn& column : ranking_columns)
      cells.push_back(
          detail::spread_text(spread_of(row, column, found_.workload.windows), number_text(column.unit, true)));
    if (!found_.reference.empty()) {
      const bool itself = row.name == found_.reference;
      cells.push_back(itself ? "" : detail::signed_text(100 * row.against.difference.mean));
      cells.push_back(itself ? "" : verdict_of(row.against));
    }
    cells.push_back(marked(row.name, marks_of(row, true)) +
                    (alike > 0 ? fmt::format(" (and {} with equal figures)", alike) : ""));
    lines_.push_back(std::move(cells));
  }
  [[nodiscard]] std::string text() const {
    const std::size_t aligned = lines_.front().size() - 1;
    std::string out;
    std::size_t width = 0;
    for (std::size_t l = 0; l < lines_.size(); ++l) {
      std::string line;
      for (std::size_t c = 0; c < aligned; ++c) {
        std::size_t widest = 0;
        for (const auto& cells : lines_) widest = std::max(widest, cells[c].size());
        line += fmt::format("{:>{}}{}", lines_[l][c], widest, c + 1 < aligned ? "  " : "");
      }
      width = std::max(width, line.size());
      line += "  " + lines_[l][aligned];
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
      if (l == 1) out += std::string(width + 34, '-') + "\n";
    }
    return out;
  }

 private:
  const Exploration& found_;
  std::vector<std::vector<std::string>> lines_;
};

/// Appends the first `most` rows of a group; rows with equal figures count once.
template <class Group>
void append_rows(std::string& out, const Exploration& found, Group in_group, std::size_t most) {
  Ranking ranking(found);
  std::size_t shown = 0;
  for (std::size_t i = 0; i < found.rows.size() && shown < most; ++i) {
    const Row& row = found.rows[i];
    if (!in_group(row)) continue;
    const auto group = [](const Row& of, std::size_t at) { return of.same_as.value_or(at); };
    std::size_t alike = 0, before = 0;
    if (!row.control)
      for (std::size_t j = 0; j < found.rows.size(); ++j)
        if (j != i && in_group(found.rows[j]) && !found.rows[j].control && group(found.rows[j], j) == group(row, i))
          ++(j < i ? before : alike);
    if (before > 0) continue;
    ranking.add(row, alike);
    ++shown;
  }
  out += ranking.text();
}

/// Appends the number of engines that livelock, and the first of them with its livelock.
void append_livelocked(std::string& out, const Exploration& found) {
  std::size_t count = 0;
  const Row* first = nullptr;
  for (const Row& row : found.rows) {
    if (row.livelock.empty()) continue;
    ++count;
    if (first == nullptr || row.number < first->number) first = &row;
  }
  if (first == nullptr) return;
  out += fmt::format(
      "{} engines livelock on this workload: they rank last and count in no figure below. The first:\n  {}\n  "
      "{}\n\n",
      count, first->engine, first->livelock);
}

/// Explains the mark of rows whose latencies are those of the workload's length.
void append_growing(std::string& out, const Exploration& found) {
  const auto count = std::count_if(found.rows.begin(), found.rows.end(), [](const Row& row) { return grows(row); });
  if (count > 0)
    out +=
        fmt::format("queue grows to the end in {} of {} rows: with more requests their latencies would be longer\n\n",
                    count, found.rows.size());
  if (!found.rows.empty() && found.rows.front().short_horizon)
    out += "goodput is the rate of arrivals: requests take longer than the time until --horizon\n\n";
}

/// With enough seeds: the gain's interval. Its ends, since it is not symmetric (report/statistics/paired.hpp).
std::string interval_text(const Marginal& marginal) {
  const Interval& of = marginal.gain_of_seeds;
  return of.known() ? fmt::format(" ({} to {})", points(of.least), points(of.most)) : "";
}

void append_marginals(std::string& out, const Exploration& found) {
  out += "Effect of each choice: SLO attainment over all combinations that work; on the right compared with the role's "
         "first\n"
         "policy in the same combinations, in points\n\n";
  std::size_t width = 5;
  for (const RoleChoices& role : found.space.roles)
    for (const std::string& model : role.models) width = std::max(width, model.size());
  std::size_t gain = 12;
  for (const RoleMarginals& role : found.marginals)
    for (const Marginal& marginal : role.models)
      gain = std::max(gain, points(marginal.gain).size() + interval_text(marginal).size());
  out += fmt::format("{:<10} {:>6}  {:<{}} {:>12} {:>6} {:>6} {:>{}} {:>14}\n", "role", "spread", "policy", width,
                     "combinations", "best", "mean", "gain", gain, "better, worse");
  out += std::string(width + gain + 62, '-') + '\n';
  for (const RoleMarginals& role : found.marginals) {
    const RoleChoices& choices = found.space.roles[role.role];
    for (std::size_t m = 0; m < choices.models.size(); ++m) {
      const Marginal& marginal = role.models[m];
      out += fmt::format(
          "{:<10} {:>6}  {:<{}} {:>12} {:>6} {:>6} {:>{}} {:>14}\n", m == 0 ? choices.role : "",
          m == 0 ? fmt::format("{:.1f}", 100 * role.spread) : "", choices.models[m], width, marginal.combinations,
          percent_text(marginal.best), percent_text(marginal.mean),
          marginal.pairs > 0 ? points(marginal.gain) + interval_text(marginal) : "", gain,
          marginal.pairs > 0 ? fmt::format("{}, {} of {}", marginal.better, marginal.worse, marginal.pairs) : "");
    }
  }
}

void append_finding(std::string& out, const Exploration& found) {
  const Row* published = found.best(true);
  const Row* own = found.best(false);
  if (published == nullptr || own == nullptr) return;
  const std::vector<const Row*> better = found.beats_published();
  const Metrics& theirs = published->metrics;
  if (better.empty()) {
    out += fmt::format("No composition beats the best published system here, {} ({} %); the best has {} %:\n  {}\n",
                       published->name, percent_text(theirs.slo_attainment), percent_text(own->metrics.slo_attainment),
                       own->engine);
    return;
  }
  const auto also = static_cast<std::size_t>(std::count_if(better.begin(), better.end(), [&](const Row* row) {
    const Metrics& m = row->metrics;
    return m.mean_e2e_all_s <= theirs.mean_e2e_all_s && m.longest_gap_all_s <= theirs.longest_gap_all_s;
  }));
  const Metrics& ours = better.front()->metrics;
  out += fmt::format(
      "{} compositions (with equal figures counted once) have a higher SLO attainment than every published system (the "
      "best: "
      "{}, {} %),\n{} of them have neither a longer mean E2E nor a longer longest gap of all requests. The best, to "
      "paste "
      "where `using namespace sluice;` holds:\n\n  using Found = {};\n\n  SLO attainment {} % against {} %, mean "
      "E2E of all {} s against {} s, longest gap of all {} s against {} s\n",
      better.size(), published->name, percent_text(theirs.slo_attainment), also, better.front()->engine,
      percent_text(ours.slo_attainment), percent_text(theirs.slo_attainment), short_text(ours.mean_e2e_all_s),
      short_text(theirs.mean_e2e_all_s), short_text(ours.longest_gap_all_s), short_text(theirs.longest_gap_all_s));
  if (!found.of_seeds()) return;
  const auto surely = static_cast<std::size_t>(
      std::count_if(better.begin(), better.end(), [](const Row* row) { return !row->against.tie(); }));
  out += fmt::format(
      "  These are means. In paired comparisons {} of the {} {} better than {} and not tied; the best: {}.\n", surely,
      better.size(), surely == 1 ? "is" : "are", found.reference, verdict_of(better.front()->against));
}

} // namespace

std::string exploration_text(const Exploration& found, std::size_t top) {
  const WorkloadReport& w = found.workload;
  std::size_t works = 0;
  for (const Combination& combination : found.space.combinations) works += combination.works ? 1 : 0;
  const std::size_t all = found.space.combinations.size(), engines = found.space.engines.size();
  SystemReport slo;
  slo.slo_tbt_s = found.slo_tbt_s;
  slo.slo_ttft_s = w.slo_ttft_s;
  const ReportBlock block{found.deposit, found.slo_scale, {&slo}};
  std::string out =
      fmt::format("{}{}, {} requests, {}; {} on {}, {}; {}; {}\n", w.trace, w.redrawn.empty() ? "" : " " + w.redrawn,
                  w.requests, seeds_of(w), w.model, w.device, kv_budget_text(w), slo_text(w, block), title_of(block));
  for (const std::string& caution : w.cautions) out += fmt::format("caution: {}\n", caution);
  out += fmt::format("{} combinations of {} roles: {} engines; {} repeat one of them, {} do not work together\n\n", all,
                     found.space.roles.size(), engines, works - engines, all - works);
  const std::string few = too_few_note(w.seeds.size(), w.windows);
  if (found.of_seeds())
    out += fmt::format("Means of {} {}{}{}\n\n", w.seeds.size(), seeds_or_windows(w.windows),
                       some_interval(w.windows, w.seeds.size()) ? ", +- half of the 95 % interval" : "",
                       found.reference.empty() ? ""
                                               : fmt::format("; compared {0} by {0} with {1}, the best published; {2}",
                                                             w.windows ? "window" : "seed", found.reference,
                                                             few.empty() ? "of a hundred equal systems about five "
                                                                           "differ by chance"
                                                                         : few));
  const auto is_composition = [](const Row& row) { return !row.listed; };
  const auto ran = std::count_if(found.rows.begin(), found.rows.end(), is_composition);
  out += fmt::format("The best compositions of {}{}\n\n", ran,
                     found.runs.whole() ? "" : fmt::format(" that have run, of {}", engines));
  append_rows(out, found, is_composition, top);
  out += "\nPublished systems, ranked among all\n\n";
  append_rows(
      out, found, [](const Row& row) { return row.published(); }, found.rows.size());
  const auto is_own = [](const Row& row) { return row.own; };
  if (std::any_of(found.rows.begin(), found.rows.end(), is_own)) {
    out += "\nOwn systems, of this project or program, ranked among all\n\n";
    append_rows(out, found, is_own, found.rows.size());
  }
  out += '\n';
  append_livelocked(out, found);
  append_growing(out, found);
  append_marginals(out, found);
  out += '\n';
  if (found.runs.whole()) append_finding(out, found); // it compares with all published systems
  if (const std::string note = one_seed_note(w); !note.empty()) out += note + "\n";
  return out;
}

} // namespace explored
