// SPDX-License-Identifier: Apache-2.0
// Prepared: the iteration that a committed decision comes to, before a backend runs it.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/cost/work.hpp"
#include "sluice/engine/core/committer.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/plan/weight_stream.hpp"

#include <vector>

namespace sluice {

/// What the iteration computes and what room its transfers have; `Moves` says what it moves.
struct Prepared {
  Work work; ///< refers to `chunks`, and to the moves' rebuilds
  std::vector<ChunkWork> chunks;
  WeightStream weights;  ///< streamed, by the plan in force
  double room = 0;       ///< device blocks for blocks in flight
  double urgent_out = 0; ///< layer blocks to the host before any prefetch
  double background = 0; ///< layer blocks to the host as the link has time
  Seconds planning{0};   ///< search time that the iteration waited for
  Seconds launched{0};   ///< when the backend began, in real time
  bool repeated = false; ///< the last decision runs once more
};

/// Sums up what the claims compute in this iteration.
void gather_work(const Core& core, const Decision& decision, const Moves& moves, Prepared& prepared);

/// Finds the room for blocks in flight and what has to leave for it. `background_before`: layer blocks whose eviction
/// the last iteration left over.
void prepare(const Core& core, const Moves& moves, double background_before, Prepared& prepared);

/// Has the committer make copies ahead in what time the link has left during the prepared iteration, which moves them.
void copy_ahead(Core& core, Committer& committer, const PolicyCalls& policies, Seconds now, Prepared& prepared);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/prepared.inl.hpp" // IWYU pragma: keep
#endif
