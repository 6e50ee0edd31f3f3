// SPDX-License-Identifier: Apache-2.0
// seeds: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/seeds.hpp"
#include "sluice/workload/seeds.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace sluice {

SLUICE_REPORT_INLINE Metrics mean_metrics(std::span<const Metrics> each) {
  std::vector<std::vector<double>> values;
  for (const Metrics& metrics : each) {
    std::size_t at = 0;
    for_each_metric(metrics, [&](std::string_view, auto number) {
      if (at == values.size()) values.emplace_back();
      values[at++].push_back(static_cast<double>(number));
    });
  }
  Metrics mean;
  std::size_t at = 0;
  for_each_metric(mean, [&](std::string_view, auto& number) {
    if (at == values.size()) return;
    const double of = mean_of(values[at++]);
    if constexpr (std::is_floating_point_v<std::remove_reference_t<decltype(number)>>)
      number = of;
    else
      number = std::llround(of);
  });
  return mean;
}

SLUICE_REPORT_INLINE SystemReport joined(std::vector<SystemReport> runs, const std::vector<std::uint64_t>& seeds,
                                         bool windows) {
  SLUICE_ASSERT(!runs.empty() && runs.size() == seeds.size(), "a run of every seed");
  std::vector<Metrics> each;
  detail::RefusalGroups refusals;
  std::vector<std::uint64_t> caught;
  std::vector<std::string> livelocks;
  std::string livelock;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    each.push_back(runs[i].metrics);
    for (const auto& [reason, count] : runs[i].refusals) refusals.add(reason, count);
    livelocks.push_back(runs[i].livelock);
    if (runs[i].livelock.empty()) continue;
    if (caught.empty()) livelock = runs[i].livelock;
    caught.push_back(seeds[i]);
  }
  std::vector<SystemReport> classes;
  for (std::size_t of = 0; of < runs.front().classes.size(); ++of) {
    std::vector<SystemReport> parts;
    for (SystemReport& run : runs) parts.push_back(std::move(run.classes[of]));
    classes.push_back(joined(std::move(parts), seeds, windows));
  }
  SystemReport row = std::move(runs.front());
  row.classes = std::move(classes);
  row.windows = windows;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    row.time.add(runs[i].time);
    row.unpaid.add(runs[i].unpaid);
    row.waits_for_memory |= runs[i].waits_for_memory;
    if (row.beyond_grid && runs[i].beyond_grid) row.beyond_grid->add(*runs[i].beyond_grid);
  }
  row.metrics = mean_metrics(each);
  row.per_seed = std::move(each);
  row.livelocks = std::move(livelocks);
  row.refusals = refusals.all();
  row.livelock = caught.empty()
                     ? std::string{}
                     : "of " + std::to_string(seeds.size()) + " " + seeds_or_windows(windows) + " " +
                           std::to_string(caught.size()) + " (" + seeds_text(caught) + "), the first " + livelock;
  return row;
}

SLUICE_REPORT_INLINE const SystemReport* reference_of(const ReportBlock& block, std::string_view baseline) {
  for (const SystemReport* row : block.rows)
    if (!baseline.empty() && row->name == baseline) return row;
  for (const SystemReport* row : block.rows) // in the order of their ranks
    if (!row->oracle && row->name.find('/') == std::string::npos)
      return row->control || !row->livelock.empty() ? nullptr : row;
  return nullptr;
}

SLUICE_REPORT_INLINE const SystemReport* rival_of(const ReportBlock& block, const SystemReport& row,
                                                  std::string_view baseline) {
  const SystemReport* reference = reference_of(block, baseline);
  if (reference == nullptr) return nullptr;
  const std::size_t slash = row.name.find('/');
  const std::string name = reference->name + (slash == std::string::npos ? std::string{} : row.name.substr(slash));
  for (const SystemReport* rival : block.rows)
    if (rival->name == name) return rival == &row ? nullptr : rival;
  return nullptr;
}

SLUICE_REPORT_INLINE JudgedValues judged_values(const SystemReport& row, const SystemReport& reference,
                                                const JudgedFigure& by) {
  const auto figure = [&by](const Metrics& metrics) { return metrics.*by.figure; };
  JudgedValues values{seed_values(row, figure), seed_values(reference, figure)};
  if (!by.waits) return values;
  const auto runs_of = [](const SystemReport& of) {
    return of.per_seed.empty() ? std::span{&of.metrics, 1} : std::span<const Metrics>{of.per_seed};
  };
  const std::span<const Metrics> own = runs_of(row), other = runs_of(reference);
  for (std::size_t i = 0; i < std::min(own.size(), other.size()); ++i) {
    const double end = common_end(own[i], other[i]);
    values.row[i] = mean_e2e_all_until(own[i], end);
    values.reference[i] = mean_e2e_all_until(other[i], end);
  }
  return values;
}

SLUICE_REPORT_INLINE Paired judged_pairs(std::span<const double> row, std::span<const double> reference, bool windows,
                                         std::size_t least_pairs) {
  const Paired of = paired(row, reference);
  const bool too_few = least_pairs == 0 || of.pairs() < least_pairs;
  return windows || too_few || mostly_equal(of) ? by_signs(of) : of;
}

SLUICE_REPORT_INLINE Paired judged(const SystemReport& row, const SystemReport& reference, const JudgedFigure& by) {
  const JudgedValues values = judged_values(row, reference, by);
  return judged_pairs(values.row, values.reference, row.windows, by.least_pairs);
}

SLUICE_REPORT_INLINE std::string verdict_of(const Paired& of, bool less_is_better) {
  if (of.pairs() == 0) return "-";
  std::string wins =
      "wins " + std::to_string(less_is_better ? of.losses : of.wins) + " of " + std::to_string(of.pairs());
  if (!of.judged()) return wins;
  if (of.wins + of.losses == 0) return "tie, the same in all " + std::to_string(of.pairs());
  if (of.tie()) return "tie, " + wins;
  return (of.first_is_larger() != less_is_better ? "better, " : "worse, ") + wins;
}

SLUICE_REPORT_INLINE std::string too_few_note(std::size_t seeds, bool windows) {
  if (seeds < 2 || sign_test(0, seeds) <= 1 - usual_confidence) return {};
  return "fewer than six " + seeds_or_windows(windows) + " decide nothing; " +
         (windows ? "--windows 8" : "--seeds 1..8");
}

} // namespace sluice
