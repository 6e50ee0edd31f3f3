// SPDX-License-Identifier: Apache-2.0
// Prepared: the iteration of a committed decision, before a backend runs it.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/moves.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/state/plan/plan.hpp"

#include <vector>

namespace sluice {

/// What the iteration computes, and the room of its transfers; `Moves` says what it moves.
struct Prepared {
  Work work; ///< refers to `chunks`, `hosted` and the moves' rebuilds
  std::vector<ChunkWork> chunks;
  std::vector<Tokens> hosted; ///< contexts of the decodes that the host attends
  WeightStream weights;       ///< streamed by the plan in force
  double room = 0;            ///< device blocks available in flight
  double urgent_out = 0;      ///< layer blocks to the host before any prefetch
  double background = 0;      ///< layer blocks to the host while the link has time
  Seconds planning{0};        ///< search time that the iteration waited for
  Seconds launched{0};        ///< when the backend started, in real time
  bool repeated = false;      ///< the last decision runs once more

  /// Whether anything is computed: if all requests wait for loads, nothing is.
  [[nodiscard]] bool computes() const { return work.tokens().count() > 0 || !work.hosted.nothing(); }
};

/// Sums up what the claims compute in this iteration.
void gather_work(const Core& core, const Decision& decision, const Moves& moves, Prepared& prepared);

/// Finds the room for blocks in flight and what must leave for it. `background_before`: layer blocks that the last
/// iteration did not finish evicting.
void prepare(const Core& core, const Moves& moves, double background_before, Prepared& prepared);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/prepared.inl.hpp" // IWYU pragma: keep
#endif
