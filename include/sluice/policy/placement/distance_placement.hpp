// SPDX-License-Identifier: Apache-2.0
// DistancePlacement: the best distance for each request (OrbitFlow).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/placement/planning_instance.hpp"
#include "sluice/policy/placement/solver/planner.hpp"
#include "sluice/state/plan/space.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sluice {

/// The placement with the shortest predicted step among those that choose one member of `Space` per request, within
/// memory and SLO over the window (OrbitFlow, section 3.3). Exact unless `options.node_limit` ends the search first;
/// the plan then says that it is not proven, and how far it may be from the optimum.
///
/// For batches of at most about 32 requests. The search's tree grows with the power of their number: with 64 requests
/// it often ends without a plan, so newcomers wait, and with 256 a decision takes 20 ms at P99 (docs/leading.md).
/// GroupedDistance searches groups of requests instead, for batches of any size. Rejected: such groups here, since
/// OrbitFlow's solver is exact.
///
/// `Solver` is a template over space and transfer rule: ExactSearch, or any other with its `solve`.
template <class Space = DistanceSpace, SloBound Bound = SloBound::enforced,
          template <class, class> class Solver = ExactSearch>
struct BasicDistancePlacement {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  static constexpr bool unequal_layers = true;
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
  [[nodiscard]] Holding least(int layers, int on_host) const {
    return {all_tokens, largest_member<Space>(layers, on_host), {}};
  }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    return join_searched_prefix(
        task, plan, [&](std::size_t count, Binding& binding) { return plan_for(task, state, count, plan, binding); });
  }

 private:
  template <class Task, class S>
  bool plan_for(const Task& task, S& state, std::size_t count, Plan& plan, Binding& binding) const {
    planning_instance<Bound>(task, count, options, state.instance);
    state.hint.clear();
    // A preempted request may have more on the host than the layers that a plan may move.
    for (const Claim& claim : task.claims.first(count))
      state.hint.push_back(task.view.row(claim.slot).holding.host & task.among());
    const auto take = [&] {
      const Solution& solution = state.solver.solve(state.instance, Hint{state.hint});
      return take_solution(
          task, count, solution, [&](std::size_t i) { return solution.offloaded[i]; }, plan, binding);
    };
    bool taken = take();
    // The search knows no budget of the host: for a longer window it may have put layers there that a shorter one has
    // room for on the device.
    Instance& instance = state.instance;
    while (!taken && binding == Binding::host_memory && instance.window_max > instance.window_min) {
      instance.window_max = std::max(instance.window_min, instance.window_max / 2);
      taken = take();
    }
    return taken;
  }
};

using DistancePlacement = BasicDistancePlacement<>;
using EvenPlacement = BasicDistancePlacement<EvenSpace>;

static_assert(Placement<DistancePlacement>);

} // namespace sluice
