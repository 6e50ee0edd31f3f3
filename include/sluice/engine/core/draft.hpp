// SPDX-License-Identifier: Apache-2.0
// Draft: what an engine writes while it decides, and nothing else: a commit makes it fact.
#pragma once

#include "sluice/engine/core/lending.hpp"
#include "sluice/plan/plan.hpp"
#include "sluice/transfer/pipeline.hpp"
#include "sluice/view/proposal.hpp"

#include <vector>

namespace sluice {

/// A plan that observers have not been told of, and the wall time that it took.
struct UnseenPlan {
  Plan plan;
  Seconds wall{0};
};

/// The next plan, what the weights offer, and scratch memory that deciding keeps. An engine has one draft for all of
/// its decisions; it holds the newest one's content.
struct Draft {
  Plan plan; ///< in force once a decision with `new_plan` is committed; holds an older plan's content until then
  WeightsOffer offer;
  Proposal proposal;
  std::vector<LayerStream> streams; ///< scratch: of a plan applied to claims
  /// Layers are fetched: by the iteration committed last, or by the plan in force as it was last applied to claims.
  bool fetches = false;
  /// The plan was made while an iteration ran: requests that it names may have ended since.
  bool made_ahead = false;
  /// Plans made asynchronously: observers are told of them when the decision is taken.
  std::vector<UnseenPlan> unseen_plans;
};

} // namespace sluice
