// SPDX-License-Identifier: Apache-2.0
// plan_fit: whether a plan, or a decision that was made earlier, fits the requests and memories as they are now.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/draft.hpp"
#include "sluice/placement/placement.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Memory that a decision's claims may take.
struct Budget {
  LayerBlocks device{0};
  LayerBlocks host{0};
  std::int64_t depleted = 0; ///< preempted requests with an empty deposit: they miss their SLO now
};

/// The memory that the claims may take, of which the first `required` are required, with the weights as `weights` says.
/// What preempted requests hold on the device is given up for those that run, so that only their host memory counts.
[[nodiscard]] Budget budget_of(const Core& core, const PolicyCalls& policies, const Decision& decision,
                               std::size_t required, const WeightsPlan& weights, Seconds now);

/// Applies the plan in force to the claims: whether the required ones still fit, and how many optional ones fit as
/// well. Writes the room in flight into `decision`.
[[nodiscard]] Verdict apply_plan(const Core& core, Draft& draft, Decision& decision, std::size_t required,
                                 const Budget& budget);

/// Whether what is left of a decision made ahead still fits both memories; requests that have ended since are out of it
/// already. If it does not fit, the engine discards it and makes another.
[[nodiscard]] bool still_fits(const Core& core, const Draft& draft, const Decision& decision);

/// Decides on the last batch under the last plan once more, one token on, without asking a policy. False, with
/// `decision` not valid, where a request's next block has no room or a request has not run yet.
[[nodiscard]] bool repeat_last(const Core& core, Decision& decision);

namespace detail {
/// Adds what a request of so many blocks streams in an iteration, held so.
void add_streams(const Core& core, std::vector<LayerStream>& streams, const Holding& holding, TokenBlocks blocks);
/// Keeps a running request that was to leave: it gets a claim of one token, at the front. Joining requests make room
/// for it, in the batch and in its tokens, the last of them first.
void keep_after_all(const Core& core, Slot slot, std::vector<Claim>& claims);
} // namespace detail

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/plan_fit.inl.hpp" // IWYU pragma: keep
#endif
