// SPDX-License-Identifier: Apache-2.0
// StepTrial: tries a plan in the making against memory, time and the SLO.
#pragma once

#include "sluice/placement/plan_trial.hpp"
#include "sluice/placement/planning_instance.hpp"
#include "sluice/placement/solver/placement_evaluator.hpp"

#include <cstddef>
#include <vector>

namespace sluice {

/// PlanTrial for placements that look at the time as well: do the claims fit, held like this; how long does a decode of
/// them take; does that keep the SLO? Three questions of one plan, each asked when its answer is needed: each costs
/// more than the one before. All answers are about the first `plan.requests.size()` claims, as `plan` holds them, and
/// each sets what the plan says of itself.
///
/// The plan offloads whole layers of all of a request's tokens (`Holding::host`): a step that rebuilds layers, or
/// writes them back, is another evaluation (UncachedProblem, SwappedLayers).
template <class Transfer, SloBound Bound = SloBound::enforced>
class StepTrial {
 public:
  // Not a member's initialiser: a concept that asks whether there is a constructor would then compile the rule.
  StepTrial() : evaluator_{transfer_rule_of<Transfer>} {}

  /// Whether both memories hold the plan, as PlanTrial says: sets `plan.in_flight` and `plan.binding`.
  template <class Task>
  bool fits(const Task& task, Plan& plan) {
    return memory_.fits(task, plan);
  }

  /// How long an iteration takes in which each of these requests decodes, waits for transfers included; infinite where
  /// the rule cannot run in the room that is left. Sets `plan.predicted_step`, and `plan.binding` to the link if the
  /// step waits for it.
  template <class Task>
  Seconds step(const Task& task, Plan& plan, const PlanningOptions& options = {}) {
    const StepCost cost = cost_of(task, plan, options).step;
    plan.predicted_step = plan.lower_bound = Seconds{cost.step_s};
    if (cost.stall_s > 0) plan.binding = Binding::link;
    return plan.predicted_step;
  }

  /// Whether memory and SLO hold for as long as a plan has to: at most `options.alpha` late tokens a step, deposits
  /// spent first, as OrbitFlow's planner counts (docs/planner.md). Sets `plan.expires_at_step` to when they no longer
  /// do; if they never do, `plan.binding` to what stands in the way. Where the task enforces no SLO, memory alone.
  template <class Task>
  bool within_slo(const Task& task, Plan& plan, const PlanningOptions& options = {}) {
    const PlacementCost first = cost_of(task, plan, options);
    const WindowCheck check = evaluator_.hold(instance_, offloaded_, first);
    const auto holding_of = [&](std::size_t i) { return plan.requests[i].holding; };
    const bool host = host_blocks(task, plan.requests.size(), holding_of) <= task.host_budget;
    if (check.window == 0 || !host) {
      plan.binding = check.window == 0 ? check.binding : Binding::host_memory;
      return false;
    }
    plan.expires_at_step = task.view.step + check.window;
    return true;
  }

 private:
  template <class Task>
  PlacementCost cost_of(const Task& task, const Plan& plan, const PlanningOptions& options) {
    planning_instance<Bound>(task, plan.requests.size(), options, instance_);
    offloaded_.clear();
    for (const RequestPlan& request : plan.requests) {
      SLUICE_ASSERT((request.holding == Holding{all_tokens, request.holding.host, {}}), "whole layers, on the host");
      offloaded_.push_back(request.holding.host);
    }
    return evaluator_.cost(instance_, offloaded_);
  }

  PlanTrial<Transfer> memory_;
  Instance instance_;
  PlacementEvaluator evaluator_;
  std::vector<LayerSet> offloaded_;
};

/// Offloads the same layers of each of the first `count` claims.
template <class Task>
void offload_alike(const Task& task, std::size_t count, LayerSet set, Plan& plan) {
  plan.requests.clear();
  plan.covers_unseen = false;
  for (const Claim& claim : task.claims.first(count))
    plan.requests.push_back({claim.slot, Holding{all_tokens, set, {}}});
}

} // namespace sluice
