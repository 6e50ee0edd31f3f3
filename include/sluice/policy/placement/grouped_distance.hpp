// SPDX-License-Identifier: Apache-2.0
// GroupedDistance: the best distance for each group of like requests, for batches of any size.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/placement/planning_instance.hpp"
#include "sluice/policy/placement/solver/planner.hpp"
#include "sluice/state/plan/space.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// DistancePlacement's exact search over at most `groups` groups instead of requests (RequestGroups): its tree grows
/// with the power of the number of requests, so that beyond about eight the search ends long before a good plan.
///
/// A group's blocks are those of its members `growth` tokens later, so its plan lasts as long. The search is anytime:
/// it starts from the plan in force (the set of each group's largest member) and ends after `node_limit` placements. A
/// batch that fits is not searched.
///
/// Rejected: a search eight times as long for running requests, if the first ended without a plan (seeds show no gain).
template <class Space = DistanceSpace, SloBound Bound = SloBound::enforced,
          template <class, class> class Solver = ExactSearch>
struct BasicGroupedDistance {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  static constexpr bool unequal_layers = true;
  template <class Transfer>
  struct State {
    Instance instance;
    Solver<Space, Transfer> solver;
    std::vector<LayerSet> hint;
    RequestGroups groups;
  };

  PlanningOptions options{.node_limit = 48};
  std::int64_t groups = 6;
  std::int64_t growth = 16; ///< tokens of each request that a plan lasts
  static constexpr auto numbers = Numbers{
      "GroupedDistance", Number{"groups", &BasicGroupedDistance::groups, 1, 64, "groups whose distances are searched"},
      Number{"growth", &BasicGroupedDistance::growth, 1, 1e6, "tokens that a plan lasts"},
      Number{"alpha", member_of(&BasicGroupedDistance::options, &PlanningOptions::alpha), 0, 1e9,
             "misses per step that a plan may accept"},
      Number{"node_limit", member_of(&BasicGroupedDistance::options, &PlanningOptions::node_limit), 1, 1e9,
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
  /// The room of the layers that stay on the device, of the first `count` claims.
  template <class Task>
  LayerBlocks staying(const Task& task, std::size_t count) const {
    const LayerSet stay = LayerSet::all(task.layers()) - task.among();
    LayerBlocks room{0};
    for (const Claim& claim : task.claims.first(count))
      room += task.view.geometry.kv_of(task.blocks(claim, growth), stay);
    return room;
  }
  template <class Task, class S>
  bool plan_for(const Task& task, S& state, std::size_t count, Plan& plan, Binding& binding) const {
    planning_instance<Bound>(task, count, options, state.instance);
    state.instance.window_max = static_cast<int>(std::min<std::int64_t>(growth, state.instance.window_max));
    if (state.instance.kv != nullptr) { // a group has blocks of the layers that move alone: the others' room is fixed
      state.instance.device_blocks -= staying(task, count);
      state.instance.kv = nullptr;
      if (state.instance.device_blocks < LayerBlocks{0}) return binding = Binding::device_memory, false;
    }
    state.groups.form(state.instance.requests, groups, [&](std::size_t i) {
      return task.view.geometry.moved(task.blocks(task.claims[i], growth)).count();
    });
    state.hint.clear();
    for (const std::uint32_t i : state.groups.largest())
      state.hint.push_back(task.view.row(task.claims[i].slot).holding.host);
    const Solution& solution = state.solver.solve(state.instance, Hint{state.hint});
    const auto set_of = [&](std::size_t i) { return solution.offloaded[state.groups.of(i)]; };
    if (!take_solution(task, count, solution, set_of, plan, binding)) return false;
    plan.proven_optimal = solution.proven_optimal && count <= static_cast<std::size_t>(groups);
    return true;
  }
};

using GroupedDistance = BasicGroupedDistance<>;

static_assert(Placement<GroupedDistance>);

} // namespace sluice
