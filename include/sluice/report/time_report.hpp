// SPDX-License-Identifier: Apache-2.0
// TimeReport: the time of a row's requests by cause, summed over all and listed for some requests.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/why.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
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

  [[nodiscard]] std::int64_t whole() const;
  [[nodiscard]] double all_missed() const;
  void add(const TimeReport& other);
};

/// Details are kept for at most `most` requests: first `wanted`, then those that missed the most deadlines; among
/// equals, the longest.
[[nodiscard]] TimeReport time_report(std::vector<RequestTime> all, std::size_t most = 200, std::int64_t wanted = -1);

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/time_report.inl.hpp"
#endif
