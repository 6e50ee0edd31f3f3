// SPDX-License-Identifier: Apache-2.0
// TimeReport: the time of a row's requests by cause, summed over all and listed for some requests.
#pragma once

#include "sluice/report/observer/why.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

/// Why's records of a run; empty without that observer.
struct TimeReport {
  std::int64_t seen = 0;                    ///< number of requests, over all seeds
  Ticks spent{};                            ///< from arrival to end, summed over all requests
  Ticks covered{};                          ///< the part during which the deposit still had tokens for the user
  std::array<double, time_causes> missed{}; ///< deadlines
  double turned_away = 0;                   ///< deadlines of refused requests, which have no cause
  std::int64_t prompts = 0;                 ///< tokens
  MissCauses misses;                        ///< of these
  std::int64_t wanted = -1;                 ///< id of the request that the user asked for; negative: none
  std::vector<RequestTime> requests;        ///< by id; if there are many, those that missed the most deadlines. With
                                            ///< several seeds, those of the first seed

  [[nodiscard]] std::int64_t whole() const {
    std::int64_t sum = 0;
    for (const std::int64_t ticks : spent) sum += ticks;
    return sum;
  }
  [[nodiscard]] double all_missed() const {
    double sum = turned_away;
    for (const double count : missed) sum += count;
    return sum;
  }
  void add(const TimeReport& other) {
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
};

/// Details are kept for at most `most` requests: first `wanted`, then those that missed the most deadlines; among
/// equals, the longest.
[[nodiscard]] inline TimeReport time_report(std::vector<RequestTime> all, std::size_t most = 200,
                                            std::int64_t wanted = -1) {
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
