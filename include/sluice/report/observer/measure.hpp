// SPDX-License-Identifier: Apache-2.0
// measure: computes a run's metrics, as docs/metrics.md defines them, from Summary's records.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/metrics.hpp"
#include "sluice/report/observer/summary.hpp"

#include <cstdint>

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
