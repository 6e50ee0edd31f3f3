// SPDX-License-Identifier: Apache-2.0
// DistancePlacement: the best distance for each request (OrbitFlow).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/placement/planning_instance.hpp"
#include "sluice/policy/placement/solver/planner.hpp"
#include "sluice/state/plan/space.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

namespace sluice {

/// The placement with the shortest predicted step among those that choose one member of `Space` per request, within
/// memory and SLO over the window (OrbitFlow, section 3.3). Exact unless `options.node_limit` ends the search first;
/// the plan then says that it is not proven, and how far it may be from the optimum.
///
/// `Solver` is a template over space and transfer rule: ExactSearch, or any other with its `solve`.
template <class Space = DistanceSpace, SloBound Bound = SloBound::enforced,
          template <class, class> class Solver = ExactSearch>
struct BasicDistancePlacement {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {
    Instance instance;
    Solver<Space, Transfer> solver;
    std::vector<LayerSet> hint;
  };

  PlanningOptions options{};
  static constexpr auto numbers =
      Numbers{"DistancePlacement",
              Number{"alpha", member_of(&BasicDistancePlacement::options, &PlanningOptions::alpha), 0, 1e9,
                     "misses per step that a plan may accept"},
              Number{"node_limit", member_of(&BasicDistancePlacement::options, &PlanningOptions::node_limit), 1, 1e9,
                     "placements that the search evaluates at most"}};

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers), {}}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.effort = 0;
    Binding binding = Binding::none;
    // `plan` keeps the last feasible answer: the last call of `longest_prefix` is for the prefix that it returns.
    const auto feasible = [&](std::size_t count) { return plan_for(task, state, count, plan, binding); };
    if (feasible(task.claims.size())) return {true, task.claims.size() - task.required, plan.binding};
    if (task.claims.size() == task.required) return Verdict::infeasible(binding);
    if (task.required > 0 && !feasible(task.required)) return Verdict::infeasible(binding);
    const std::size_t joined = longest_prefix(task.required, task.claims.size() - 1, feasible);
    return {true, joined, task.required + joined > 0 ? plan.binding : binding};
  }

 private:
  template <class Task, class S>
  bool plan_for(const Task& task, S& state, std::size_t count, Plan& plan, Binding& binding) const {
    planning_instance<Bound>(task, count, options, state.instance);
    state.hint.clear();
    for (const Claim& claim : task.claims.first(count)) state.hint.push_back(task.view.row(claim.slot).holding.host);
    const Solution& solution = state.solver.solve(state.instance, Hint{state.hint});
    plan.effort += solution.nodes;
    if (!solution.feasible) {
      binding = solution.binding;
      return false;
    }
    const auto holding_of = [&](std::size_t i) { return Holding{all_tokens, solution.offloaded[i], {}}; };
    if (host_blocks(task, count, holding_of) > task.host_budget) {
      binding = Binding::host_memory;
      return false;
    }
    plan.requests.clear();
    plan.covers_unseen = false;
    for (std::size_t i = 0; i < count; ++i) plan.requests.push_back({task.claims[i].slot, holding_of(i)});
    plan.in_flight = LayerBlocks{static_cast<std::int64_t>(std::ceil(solution.buffer_blocks))};
    plan.predicted_step = Seconds{solution.step_s};
    plan.lower_bound = Seconds{solution.lower_bound_s};
    plan.proven_optimal = solution.proven_optimal;
    plan.binding = solution.binding;
    plan.expires_at_step = task.view.step + solution.window;
    return true;
  }
};

using DistancePlacement = BasicDistancePlacement<>;
using EvenPlacement = BasicDistancePlacement<EvenSpace>;

static_assert(Placement<DistancePlacement>);

} // namespace sluice
