// SPDX-License-Identifier: Apache-2.0
// StepTrial: tries a partial plan against memory, time and the SLO.
#pragma once

#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/placement/planning_instance.hpp"
#include "sluice/policy/placement/solver/placement_evaluator.hpp"

#include <cstddef>
#include <vector>

namespace sluice {

/// PlanTrial for placements that also consider time. It answers three questions about a plan: do the claims fit, how
/// long does a decode take, and does that meet the SLO? Each is asked only when needed, because each costs more than
/// the one before. All answers are about the first `plan.requests.size()` claims, and each is recorded in the plan.
///
/// The plan offloads whole layers of all of a request's tokens (`Holding::host`). UncachedProblem and SwappedLayers
/// evaluate steps that rebuild layers or write them back.
template <class Transfer, SloBound Bound = SloBound::enforced>
class StepTrial {
 public:
  // Not a member initialiser: a concept that asks for a constructor would then compile the rule.
  StepTrial() : evaluator_{transfer_rule_of<Transfer>} {}

  /// Whether the plan fits both memories, as in PlanTrial: sets `plan.in_flight` and `plan.binding`.
  template <class Task>
  bool fits(const Task& task, Plan& plan) {
    return memory_.fits(task, plan);
  }

  /// How long an iteration takes in which each of these requests decodes, stalls included; infinite if the rule cannot
  /// run in the remaining room. Sets `plan.predicted_step`, and `plan.binding` to the link if the step stalls.
  template <class Task>
  Seconds step(const Task& task, Plan& plan, const PlanningOptions& options = {}) {
    const StepCost cost = cost_of(task, plan, options).step;
    plan.predicted_step = plan.lower_bound = Seconds{cost.step_s};
    if (cost.stall_s > 0) plan.binding = Binding::link;
    return plan.predicted_step;
  }

  /// Whether memory and SLO hold for as long as a plan must: at most `options.alpha` late tokens per step, deposits
  /// spent first, as OrbitFlow's planner counts (docs/planner.md). Sets `plan.expires_at_step` to the step at which
  /// they stop holding; if they never hold, sets `plan.binding` to the cause. Only memory counts if the task does not
  /// enforce the SLO.
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

/// Offloads the same layers for each of the first `count` claims.
template <class Task>
void offload_alike(const Task& task, std::size_t count, LayerSet set, Plan& plan) {
  hold_alike(task, count, {all_tokens, set, {}}, plan);
}

} // namespace sluice
