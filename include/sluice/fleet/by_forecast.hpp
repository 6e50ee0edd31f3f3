// SPDX-License-Identifier: Apache-2.0
// ByForecast: the engine that would give the first token soonest, by the engines' own cost models.
#pragma once

#include "sluice/fleet/router.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace sluice {

/// Forecasts the TTFT that each engine would give: prompts are computed in order, an iteration of the engine's budget
/// at a time, after the running one; decodes take a token of the budget each, and the engine's cost model says how long
/// such an iteration takes. KV that the engine's caches have, or that comes with the request, is not computed. Engines
/// whose batch is full come last.
///
/// Limits: the decodes, and the time of an iteration, stay those of the report, though contexts grow, answers end and
/// prompts that were computed begin to decode; a prompt that is shorter than an iteration's budget counts as a whole
/// iteration; preemption and a wait for a place in the batch are not foreseen.
///
/// Rejected: a copy of each engine (engine/fork.hpp) that runs until the first token. It would be exact in a
/// simulation, because the copy knows how long every answer will be: a router of oracles. It would also cost a copy of
/// each prefix cache per request.
struct ByForecast {
  using role = roles::Router;
  static constexpr RouterReads reads{.load = true, .prefill = true, .pace = true, .prefixes = true};
  struct State {};

  Seconds every{0.1};

  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest& request, State& /*state*/) const {
    std::size_t best = view.open.front();
    bool best_full = true;
    double soonest = std::numeric_limits<double>::infinity();
    for (const std::size_t one : view.open) {
      const EngineReport& report = view.reports[one];
      const bool full = report.running + report.preempted + report.waiting + view.sent[one].requests >= report.batch;
      const double s = forecast(view, request, one).count();
      if (full != best_full ? full : s >= soonest) continue;
      best_full = full;
      soonest = s;
      best = one;
    }
    return best;
  }
  /// The TTFT that an engine would give, without a wait for a place in the batch.
  [[nodiscard]] static Seconds forecast(const FleetView& view, const RoutedRequest& request, std::size_t engine) {
    const EngineReport& report = view.reports[engine];
    const double found =
        request.keys.empty() ? 0 : static_cast<double>(view.found[engine]) / static_cast<double>(request.keys.size());
    const double ahead = static_cast<double>((report.to_prefill + view.sent[engine].prompts).count());
    const double own = static_cast<double>(request.spec.prompt.count()) -
                       std::max(static_cast<double>(request.spec.prompt.count()) * found,
                                static_cast<double>(request.arrived.count()));
    return std::max(Seconds{0}, report.computes_until - view.now) +
           report.chunk_time *
               std::max(1.0, (ahead + own) / static_cast<double>(std::max(Tokens{1}, report.chunk_prompts).count()));
  }
};

static_assert(Router<ByForecast>);

} // namespace sluice
