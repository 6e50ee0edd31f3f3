// SPDX-License-Identifier: Apache-2.0
// TimeReport: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/time_report.hpp"

#include <algorithm>
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
