// SPDX-License-Identifier: Apache-2.0
// measure: computes a run's metrics, as docs/metrics.md defines them, from Summary's records.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/metrics.hpp"
#include "sluice/report/observer/summary.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// The four latencies of a run, in seconds: TTFT of the requests that got a token, TPOT and E2E of the served requests,
/// and all requests' gaps, pooled. Sorted once, for both metrics and plots.
struct LatencyDistributions {
  Distribution ttft;
  Distribution tpot;
  Distribution e2e;
  Distribution tbt;
};

[[nodiscard]] LatencyDistributions latencies(const Summary::State& state);

/// Returns whether the number of requests in the system grows to the last arrival, so that latencies depend on how many
/// requests are served: 1 or 0; NaN with fewer than `least_for_growth` requests, and if none ends before the last
/// arrives.
///
/// Each request counts those that have arrived and not ended when it arrives. In order of arrival the requests make
/// four quarters. The queue grows if the quarters' mean counts rise one after the other, and the last is at least 1.5
/// times the second, and two requests more. Under a constant overload the count is proportional to the time, so the
/// means are as 1, 3, 5 and 7, and that ratio is 7/3; in a steady state it is 1. A stable M/M/1 queue that starts empty
/// is marked in 5 % of runs of 300 requests at a load of 0.8, and in 12 % at 0.9. A refused request ends at once, and a
/// cancelled one when its user left, or with its last token. Rejected: waits instead of counts, which do not grow for
/// the newest requests if a system lets the oldest ones starve.
[[nodiscard]] double queue_grows(const Summary::State& state);
/// The same of all requests' arrivals and the ends of those that ended, in any order.
[[nodiscard]] double queue_grows(std::vector<Seconds> arrivals, std::vector<Seconds> ends);
inline constexpr std::size_t least_for_growth = 40;

namespace detail {

/// The counts of requests from which attainments are computed.
struct PromiseCounts {
  std::int64_t owed_ttft = 0, met_ttft = 0;
  std::int64_t owed_tpot = 0, met_tpot = 0;
  std::int64_t owed_both = 0, met_both = 0; ///< requests with an SLO; those that met every SLO
  bool any_tbt = false;
};

void count_request(const RequestRecord& request, Seconds end, Metrics& m, PromiseCounts& counts);
double share(std::int64_t part, std::int64_t whole);

} // namespace detail

/// Computes the metrics of a run. `end`: its end, for requests that were still owed tokens then; `of`:
/// `latencies(state)`.
[[nodiscard]] Metrics measure(const Summary::State& state, Seconds end, const LatencyDistributions& of);

[[nodiscard]] Metrics measure(const Summary::State& state, Seconds end);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/measure.inl.hpp"
#endif
