// SPDX-License-Identifier: Apache-2.0
// FleetSummary: what a fleet's users got, in an amount of memory that does not grow with the run.
#pragma once

#include "sluice/core/fnv.hpp"
#include "sluice/core/units.hpp"
#include "sluice/fleet/events.hpp"
#include "sluice/report/observer/sketch.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice {

/// One engine's part of a run.
struct EnginePart {
  std::int64_t routed = 0; ///< requests that it was sent
  std::int64_t served = 0; ///< requests that it ended
  Tokens generated{0};     ///< of those
  std::int64_t steps = 0;  ///< iterations
};

/// A fleet's run. Quantiles are off by at most `Sketch::error`; all else is exact.
struct FleetSummary {
  std::int64_t requests = 0; ///< of the workload, that were routed
  std::int64_t served = 0, refused = 0, unfinished = 0;
  Tokens prompts{0}, generated{0}; ///< of served requests
  Tokens found{0}, loaded{0};      ///< of `prompts`
  Tokens arrived{0};               ///< whose KV crossed the network: no part of `found`
  std::int64_t preemptions = 0;
  Sketch ttft, tpot, e2e;         ///< of served requests, in seconds
  std::int64_t owed = 0, met = 0; ///< requests with an SLO; those that met their TTFT and their TPOT SLO
  Sketch age;                     ///< of the chosen engine's counts, in seconds, for routers that read of engines
  std::int64_t windows = 0;
  Seconds first_arrival{std::numeric_limits<double>::infinity()};
  Seconds last_token{0};

  std::int64_t handed = 0; ///< requests whose KV crossed the network (Handoff)
  Bytes handed_bytes{0};
  Sketch handoff;               ///< from a prompt's last iteration to its KV's arrival, in seconds
  std::int64_t interrupted = 0; ///< requests that an engine's death returned to the router
  Tokens lost{0};               ///< tokens that users had, and had to be sent again (Interrupted::restarted)
  Tokens recomputed{0};         ///< tokens whose KV was lost and that another engine computes again (resumed)

  std::vector<EnginePart> engines;
  Fnv digest; ///< of every end: equal for equal runs, whatever the threads and ranks

  /// Generated tokens per second, from the first arrival to the last token.
  [[nodiscard]] double tokens_per_s() const {
    const double span = (last_token - first_arrival).count();
    return span > 0 ? static_cast<double>(generated.count()) / span : std::numeric_limits<double>::quiet_NaN();
  }
  /// The share of requests with an SLO that met it.
  [[nodiscard]] double attainment() const {
    return owed > 0 ? static_cast<double>(met) / static_cast<double>(owed) : std::numeric_limits<double>::quiet_NaN();
  }

  void add(const FleetEnd& end) {
    digest.add(static_cast<std::int64_t>(end.number));
    digest.add(end.engine);
    digest.add(std::bit_cast<std::int64_t>(end.last.count()));
    const Slo& slo = end.spec.slo;
    const bool owes = !std::isinf(slo.ttft.count()) || !std::isinf(slo.tbt.count());
    owed += owes ? 1 : 0;
    if (end.outcome != Outcome::served) {
      ++refused;
      return;
    }
    digest.add(std::bit_cast<std::int64_t>(end.first.count()));
    ++served;
    prompts += end.spec.prompt;
    generated += end.generated;
    found += end.found;
    loaded += end.loaded;
    arrived += end.arrived;
    preemptions += end.times_preempted;
    ttft.add(end.ttft().count());
    e2e.add(end.e2e().count());
    if (end.generated.count() > 1) tpot.add(end.tpot().count());
    if (owes && on_time(end.ttft(), slo.ttft, end.first) && on_time(end.tpot(), slo.tbt, end.last)) ++met;
    last_token = std::max(last_token, end.last);
    ++engines[end.engine].served;
    engines[end.engine].generated += end.generated;
  }
};

} // namespace sluice
