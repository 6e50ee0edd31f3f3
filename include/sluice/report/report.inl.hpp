// SPDX-License-Identifier: Apache-2.0
// ComparisonReport: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/measure.hpp"
#include "sluice/report/report.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sluice {

SLUICE_REPORT_INLINE std::int64_t TimeReport::whole() const {
  std::int64_t sum = 0;
  for (const std::int64_t ticks : spent) sum += ticks;
  return sum;
}

SLUICE_REPORT_INLINE double TimeReport::all_missed() const {
  double sum = turned_away;
  for (const double count : missed) sum += count;
  return sum;
}

SLUICE_REPORT_INLINE void TimeReport::add(const TimeReport& other) {
  seen += other.seen;
  turned_away += other.turned_away;
  prompts += other.prompts;
  misses += other.misses;
  for (std::size_t i = 0; i < time_causes; ++i) {
    spent[i] += other.spent[i];
    covered[i] += other.covered[i];
    missed[i] += other.missed[i];
  }
}

SLUICE_REPORT_INLINE TimeReport time_report(std::vector<RequestTime> all, std::size_t most, std::int64_t wanted) {
  TimeReport report;
  report.wanted = wanted;
  for (const RequestTime& of : all) {
    ++report.seen;
    report.turned_away += of.turned_away;
    report.prompts += of.prompt;
    report.misses += of.misses;
    for (std::size_t i = 0; i < time_causes; ++i) {
      report.spent[i] += of.spent[i];
      report.covered[i] += of.covered[i];
      report.missed[i] += of.missed[i];
    }
  }
  const auto is_wanted = [wanted](const RequestTime& of) { return static_cast<std::int64_t>(index(of.id)) == wanted; };
  if (all.size() > most) {
    std::stable_sort(all.begin(), all.end(), [&](const RequestTime& a, const RequestTime& b) {
      if (is_wanted(a) != is_wanted(b)) return is_wanted(a);
      if (a.all_missed() != b.all_missed()) return a.all_missed() > b.all_missed();
      return a.whole() > b.whole();
    });
    all.resize(std::max<std::size_t>(most, 1));
    std::sort(all.begin(), all.end(), [](const RequestTime& a, const RequestTime& b) { return a.id < b.id; });
  }
  report.requests = std::move(all);
  return report;
}

} // namespace sluice

namespace sluice::detail {

SLUICE_REPORT_INLINE void RefusalGroups::add(const std::string& reason, std::int64_t count) {
  std::string_view text = reason;
  const bool several = text.ends_with(alike); // this text describes the group of one run, which is now one of several
  if (several) text.remove_suffix(alike.size());
  std::string shape;
  for (const char c : text)
    if (c < '0' || c > '9') shape += c;
  const auto known = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.shape == shape; });
  if (known == groups_.end()) {
    groups_.push_back({shape, std::string{text}, count, several});
  } else {
    known->count += count;
    known->differ |= several || known->first != text;
  }
}

SLUICE_REPORT_INLINE Refusals RefusalGroups::all() const {
  Refusals refusals;
  for (const Group& group : groups_)
    refusals.emplace_back(group.first + (group.differ ? std::string{alike} : std::string{}), group.count);
  return refusals;
}

[[nodiscard]] inline Refusals refusals_of(const Summary::State& summary) {
  RefusalGroups groups;
  for (const RequestRecord& request : summary.requests)
    if (request.reason >= 0) groups.add(summary.reasons[static_cast<std::size_t>(request.reason)]);
  return groups.all();
}

} // namespace sluice::detail

namespace sluice {

SLUICE_REPORT_INLINE void collect(SystemReport& report, const Summary::State& summary, Seconds end) {
  constexpr int curve_points = 120;
  const LatencyDistributions of = latencies(summary);
  report.slo_tbt_s =
      detail::common(summary, report.slo_tbt_s, [](const auto& request) { return request.slo_tbt.count(); });
  report.slo_ttft_s =
      detail::common(summary, report.slo_ttft_s, [](const auto& request) { return request.slo_ttft.count(); });
  report.metrics = measure(summary, end, of);
  report.ttft_cdf = of.ttft.cdf(curve_points);
  report.tbt_cdf = of.tbt.cdf(curve_points);
  report.e2e_cdf = of.e2e.cdf(curve_points);
  report.distributions = {distribution_report("ttft_s", of.ttft), distribution_report("tpot_s", of.tpot),
                          distribution_report("tbt_s", of.tbt), distribution_report("e2e_s", of.e2e)};
  report.refusals = detail::refusals_of(summary);
}

} // namespace sluice
