// SPDX-License-Identifier: Apache-2.0
// An exploration for a terminal.
#include "sluice/report/number_text.hpp"
#include "sluice/report/order.hpp"

#include "explore/exploration.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace explored {

using namespace sluice;

namespace {

std::string points(double share) { return fmt::format("{:+.1f}", 100 * share); }

void append_head(std::string& out) {
  out += fmt::format("{:>5} {:>6} {:>9} {:>8} {:>9} {:>8} {:>6} {:>7}\n", "", "TBT", "per token", "mean", "longest",
                     "through-", "TTFT", "");
  out += fmt::format("{:>5} {:>6} {:>9} {:>8} {:>9} {:>8} {:>6} {:>7}  {}\n", "rank", "%", "%", "E2E, s", "gap, s",
                     "put, t/s", "%", "refused", "engine");
  out += std::string(120, '-') + '\n';
}
void append_row(std::string& out, const Row& row, std::size_t alike) {
  const Metrics& m = row.metrics;
  out += fmt::format("{:>5} {:>6} {:>9} {:>8} {:>9} {:>8} {:>6} {:>7}  {}{}{}\n",
                     row.control ? "-" : std::to_string(row.rank), percent_text(m.tbt_attainment),
                     percent_text(m.per_token_attainment), short_text(m.mean_e2e_s), short_text(m.longest_gap_s),
                     short_text(m.throughput_tokens_per_s), percent_text(m.ttft_attainment), m.refused, row.name,
                     row.control            ? " (control)"
                     : row.livelock.empty() ? ""
                                            : " (livelocked)",
                     alike > 0 ? fmt::format(" (and {} alike)", alike) : "");
}

/// The first `most` of the published, or of the others, those of equal figures as one.
void append_rows(std::string& out, const Exploration& found, bool published, std::size_t most) {
  append_head(out);
  std::size_t shown = 0;
  for (std::size_t i = 0; i < found.rows.size() && shown < most; ++i) {
    const Row& row = found.rows[i];
    if (row.published != published) continue;
    const auto group = [](const Row& of, std::size_t at) { return of.same_as.value_or(at); };
    std::size_t alike = 0, before = 0;
    if (!row.control)
      for (std::size_t j = 0; j < found.rows.size(); ++j)
        if (j != i && found.rows[j].published == published && !found.rows[j].control &&
            group(found.rows[j], j) == group(row, i))
          ++(j < i ? before : alike);
    if (before > 0) continue;
    append_row(out, row, alike);
    ++shown;
  }
}

/// How many run and get nowhere, and the first of them with what it is caught in.
void append_livelocked(std::string& out, const Exploration& found) {
  std::size_t count = 0;
  const Row* first = nullptr;
  for (const Row& row : found.rows) {
    if (row.livelock.empty()) continue;
    ++count;
    if (first == nullptr || row.number < first->number) first = &row;
  }
  if (first == nullptr) return;
  out +=
      fmt::format("{} engines livelock on this workload: they rank last and count nowhere below. The first:\n  {}\n  "
                  "{}\n\n",
                  count, first->engine, first->livelock);
}

void append_marginals(std::string& out, const Exploration& found) {
  out += "What each choice is worth: TBT attainment over all combinations that work; on the right against the role's "
         "first\n"
         "model, all else equal, in points\n\n";
  std::size_t width = 5;
  for (const RoleChoices& role : found.space.roles)
    for (const std::string& model : role.models) width = std::max(width, model.size());
  out += fmt::format("{:<10} {:>6}  {:<{}} {:>12} {:>6} {:>6} {:>8} {:>14}\n", "role", "spread", "model", width,
                     "combinations", "best", "mean", "gain", "better, worse");
  out += std::string(width + 70, '-') + '\n';
  for (const RoleMarginals& role : found.marginals) {
    const RoleChoices& choices = found.space.roles[role.role];
    for (std::size_t m = 0; m < choices.models.size(); ++m) {
      const Marginal& marginal = role.models[m];
      out += fmt::format(
          "{:<10} {:>6}  {:<{}} {:>12} {:>6} {:>6} {:>8} {:>14}\n", m == 0 ? choices.role : "",
          m == 0 ? fmt::format("{:.1f}", 100 * role.spread) : "", choices.models[m], width, marginal.combinations,
          percent_text(marginal.best), percent_text(marginal.mean), marginal.pairs > 0 ? points(marginal.gain) : "",
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
                       published->name, percent_text(theirs.tbt_attainment), percent_text(own->metrics.tbt_attainment),
                       own->engine);
    return;
  }
  const auto also = static_cast<std::size_t>(std::count_if(better.begin(), better.end(), [&](const Row* row) {
    return row->metrics.mean_e2e_s <= theirs.mean_e2e_s && row->metrics.longest_gap_s <= theirs.longest_gap_s;
  }));
  const Metrics& ours = better.front()->metrics;
  out += fmt::format(
      "{} compositions of different figures have a higher TBT attainment than every published system (the best: "
      "{}, {} %),\n{} of them with neither a longer mean E2E nor a longer longest gap. The best, to paste where "
      "`using namespace sluice;` holds:\n\n  using Found = {};\n\n  TBT attainment {} % against {} %, mean "
      "E2E {} s against {} s, longest gap {} s against {} s\n",
      better.size(), published->name, percent_text(theirs.tbt_attainment), also, better.front()->engine,
      percent_text(ours.tbt_attainment), percent_text(theirs.tbt_attainment), short_text(ours.mean_e2e_s),
      short_text(theirs.mean_e2e_s), short_text(ours.longest_gap_s), short_text(theirs.longest_gap_s));
}

} // namespace

std::string exploration_text(const Exploration& found, std::size_t top) {
  const WorkloadReport& w = found.workload;
  std::size_t works = 0;
  for (const Combination& combination : found.space.combinations) works += combination.works ? 1 : 0;
  const std::size_t all = found.space.combinations.size(), engines = found.space.engines.size();
  std::string out = fmt::format("{}, {} requests, seed {}; {} on {}, {} token blocks of KV; SLO {} a token (scale {}), "
                                "first token {}; {}\n",
                                w.trace, w.requests, w.seed, w.model, w.device, w.budget_blocks,
                                time_text(found.slo_tbt_s), tidy_text(found.slo_scale), time_text(w.slo_ttft_s),
                                found.deposit ? "with token deposit" : "without deposit");
  out += fmt::format("{} combinations of {} roles: {} engines; {} repeat one of them, {} do not work together\n\n", all,
                     found.space.roles.size(), engines, works - engines, all - works);
  out += fmt::format("The best compositions of {}\n\n", engines);
  append_rows(out, found, false, top);
  out += "\nPublished systems, ranked among all\n\n";
  append_rows(out, found, true, found.rows.size());
  out += '\n';
  append_livelocked(out, found);
  append_marginals(out, found);
  out += '\n';
  append_finding(out, found);
  return out;
}

} // namespace explored
