// SPDX-License-Identifier: Apache-2.0
// plan_fit: whether a plan, or a decision that was made earlier, fits the requests and memories as they are now.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/draft.hpp"
#include "sluice/engine/decision.hpp"
#include "sluice/placement/placement.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Memory that a decision's claims may take.
struct Budget {
  LayerBlocks device{0};
  LayerBlocks host{0};
  std::int64_t depleted = 0; ///< preempted requests with no deposit: they miss their SLO now
};

/// The budget of the claims, of which the first `required` are required, with the weights as `weights` says. What
/// preempted requests hold on the device is given up for those who run, so that only their host memory counts.
[[nodiscard]] Budget budget_of(const Core& core, const PolicyCalls& policies, const Decision& decision,
                               std::size_t required, const WeightsPlan& weights, Seconds now);

/// The plan in force, applied to the claims: whether the required ones still fit, and how many optional ones fit beside
/// them. Writes the room in flight into `decision`.
[[nodiscard]] Verdict apply_plan(const Core& core, Draft& draft, Decision& decision, std::size_t required,
                                 const Budget& budget);

/// A decision made ahead, held against what has happened since; requests that ended are gone from it already. Whether
/// what is left still fits both memories: if not, the engine discards it and makes another.
[[nodiscard]] bool still_fits(const Core& core, const Draft& draft, const Decision& decision);

/// The last batch under the last plan, one token on, with no policy asked. False, and `decision` is not valid, where a
/// request's next block has no room or a request has not run yet.
[[nodiscard]] bool repeat_last(const Core& core, Decision& decision);

namespace detail {
/// A running request that was to leave stays: a claim of one token, at the front. Joining requests make room for it,
/// the last of them first, in the batch and in its tokens.
void keep_after_all(const Core& core, Slot slot, std::vector<Claim>& claims);
} // namespace detail

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/plan_fit.inl.hpp" // IWYU pragma: keep
#endif
