// SPDX-License-Identifier: Apache-2.0
// Draft: what an engine writes while it decides; a commit makes it fact.
#pragma once

#include "sluice/engine/core/lending.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/state/plan/plan.hpp"
#include "sluice/state/view/proposal.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// A plan that observers do not know yet, and the wall time that it took.
struct UnseenPlan {
  Plan plan;
  Seconds wall{0};
};

/// The claim of a running request that is preempted for a pressing one, and its place among the claims.
struct Paid {
  Claim claim;
  std::ptrdiff_t at = 0;
};

/// The next plan, what the weights offer, and scratch memory of decisions. An engine has one draft for all decisions;
/// it holds the content of the newest.
struct Draft {
  Plan plan; ///< in force once a decision with `new_plan` is committed; an older plan's content until then
  WeightsOffer offer;
  Proposal proposal;
  std::vector<std::uint64_t> proposed; ///< scratch: by slot, the last check that met it (proposal_check.hpp)
  std::uint64_t checks = 0;            ///< checks of proposals so far
  Paid paid;                           ///< scratch: for the pressing claim under consideration
  std::vector<Claim> optional;         ///< scratch: optional claims that wait meanwhile
  std::vector<LayerStream> streams;    ///< scratch: of a plan applied to claims
  /// Whether layers are fetched: by the last committed iteration, or by the plan in force when it was last applied.
  bool fetches = false;
  /// Whether the plan was made while an iteration ran: requests that it names may have ended since.
  bool made_ahead = false;
  /// Plans made asynchronously: observers see them when the decision is taken.
  std::vector<UnseenPlan> unseen_plans;

  /// No plan names the next request in this row.
  void forget(Slot slot) {
    std::erase_if(plan.requests, [slot](const RequestPlan& planned) { return planned.slot == slot; });
  }
};

} // namespace sluice
