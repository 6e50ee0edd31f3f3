// SPDX-License-Identifier: Apache-2.0
// plan_fit: whether a plan, or an earlier decision, fits the present requests and memories.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/policy/placement/placement.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Memory for a decision's claims.
struct Budget {
  LayerBlocks device{0};
  LayerBlocks host{0};
  std::int64_t depleted = 0; ///< preempted requests with an empty deposit, which miss their SLO now
};

/// Whether the request is a victim that Relief refuses: it leaves both memories before any claim takes its place.
[[nodiscard]] bool refuses(const Core& core, const Decision& decision, Slot slot);

/// The memory for the claims, of which the first `required` are required, with the plan `weights` of the weights.
/// Preempted requests give up their device memory for running ones, so only their host memory counts.
[[nodiscard]] Budget budget_of(const Core& core, const PolicyCalls& policies, const Decision& decision,
                               std::size_t required, const WeightsPlan& weights, Seconds now);

/// Applies the plan in force to the claims: whether the required ones still fit, and how many optional ones fit too.
/// Writes the room in flight into `decision`.
[[nodiscard]] Verdict apply_plan(const Core& core, Draft& draft, Decision& decision, std::size_t required,
                                 const Budget& budget);

/// Whether a decision made ahead still fits both memories, after requests that have ended since were removed from it.
/// If not, the engine discards it and decides again. Raises the room in flight to what the requests need now: they have
/// grown if an iteration was repeated meanwhile, and a Retention may keep more than it would have a step before.
[[nodiscard]] bool still_fits(const Core& core, const Draft& draft, Decision& decision, const PolicyCalls& policies,
                              Seconds now);

/// Repeats the last batch under the last plan, one token on, without asking a policy. Keeps `decision.next`.
/// False, with `decision` not valid, if a request's next block has no room or a request has not run yet.
[[nodiscard]] bool repeat_last(const Core& core, Decision& decision);

/// Lets requests leave by Admission's choice, unless lack of host memory would lose their progress. Those that take no
/// more of the host leave first: what they have there may be the room for the others.
void let_leave(const Core& core, const Draft& draft, Decision& decision, const View& view, const PolicyCalls& policies);

/// Whether there are preempted requests once the decision is committed.
[[nodiscard]] bool others_keep_memory(const Core& core, const Decision& decision);

/// Removes the optional claims that have no place. False if the verdict names claims that are not optional.
[[nodiscard]] bool keep_joined(std::vector<Claim>& claims, std::size_t required, const Verdict& verdict);

/// There is no plan with the last pressing claim. The request that it names is preempted for it; if that has not
/// helped, the claim is dropped and that request runs on. Optional claims wait while a request is preempted, and are
/// considered again once none is: a claim that presses in vain must not keep others out.
void settle_pressing(Draft& draft, Decision& decision, std::size_t& required);

namespace detail {
/// Adds what a request of `blocks` blocks with the residency `holding` streams in an iteration.
void add_streams(const Core& core, std::vector<LayerStream>& streams, const Holding& holding, TokenBlocks blocks);
/// The device room in flight of requests that have grown since their plan was made. Only a backend that moves real
/// bytes asks: it cannot run with less.
struct GrownRoom {
  const Core* core;
  std::vector<LayerStream> streams{};
  LayerBlocks rebuilt{0}; ///< K and V of layers that are nowhere, while they compute

  /// A request of `blocks` blocks with the residency `holding` runs.
  void add(const Holding& holding, TokenBlocks blocks);
  [[nodiscard]] LayerBlocks blocks() const;
};
/// Keeps a running request that was about to leave: it gets a claim of one token at the front. Joining requests make
/// room for it, in the batch and in the token budget, the last of them first.
void keep_after_all(const Core& core, Slot slot, std::vector<Claim>& claims);
} // namespace detail

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/plan_fit.inl.hpp" // IWYU pragma: keep
#endif
