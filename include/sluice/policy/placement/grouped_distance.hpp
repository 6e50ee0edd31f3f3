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
#include <numeric>
#include <vector>

namespace sluice {

/// DistancePlacement's exact search over at most `groups` groups instead of requests: its tree grows with the power of
/// the number of requests, so that beyond about eight the search ends long before a good plan. Requests of one SLO and
/// about one size are alike to the evaluator, since a layer waits for the sum of its transfers however they divide the
/// link.
///
/// Groups have about equal KV: sorted by SLO and size, cut where a part is full. A group's blocks are those of its
/// members `growth` tokens later, so its plan lasts as long. The search is anytime: it starts from the plan in force
/// (the set of each group's largest member) and ends after `node_limit` placements. A batch that fits is not searched.
/// A search that ends at the limit without a plan proves nothing, and a running request would pause for it: for the
/// required claims it starts again and may evaluate `patience` times as many placements.
template <class Space = DistanceSpace, SloBound Bound = SloBound::enforced,
          template <class, class> class Solver = ExactSearch>
struct BasicGroupedDistance {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {
    Instance instance;
    Solver<Space, Transfer> solver;
    std::vector<LayerSet> hint;
    std::vector<std::uint32_t> order, group; ///< claims by SLO and size, and the group of each claim
    std::vector<InstanceRequest> grouped;
  };

  PlanningOptions options{.node_limit = 48};
  std::int64_t groups = 6;
  std::int64_t growth = 16;  ///< tokens of each request that a plan lasts
  std::int64_t patience = 8; ///< times `node_limit`, for required claims without a plan
  static constexpr auto numbers =
      Numbers{"GroupedDistance",
              Number{"groups", &BasicGroupedDistance::groups, 1, 64, "groups whose distances are searched"},
              Number{"growth", &BasicGroupedDistance::growth, 1, 1e6, "tokens that a plan lasts"},
              Number{"patience", &BasicGroupedDistance::patience, 0, 1e6,
                     "longer search, in node limits, for required claims without a plan"},
              Number{"alpha", member_of(&BasicGroupedDistance::options, &PlanningOptions::alpha), 0, 1e9,
                     "misses per step that a plan may accept"},
              Number{"node_limit", member_of(&BasicGroupedDistance::options, &PlanningOptions::node_limit), 1, 1e9,
                     "placements that the search evaluates at most"}};

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers), {}}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    return join_searched_prefix(
        task, plan, [&](std::size_t count, Binding& binding) { return plan_for(task, state, count, plan, binding); });
  }

 private:
  template <class Task, class S>
  bool plan_for(const Task& task, S& state, std::size_t count, Plan& plan, Binding& binding) const {
    planning_instance<Bound>(task, count, options, state.instance);
    state.instance.window_max = static_cast<int>(std::min<std::int64_t>(growth, state.instance.window_max));
    form_groups(task, state, count);
    const Solution* found = &state.solver.solve(state.instance, Hint{state.hint});
    if (!found->feasible && !found->proven_optimal && count == task.required && patience > 0) {
      plan.effort += found->nodes;
      state.instance.node_limit *= patience;
      found = &state.solver.solve(state.instance, Hint{state.hint});
    }
    const Solution& solution = *found;
    const auto set_of = [&](std::size_t i) { return solution.offloaded[state.group[i]]; };
    if (!take_solution(task, count, solution, set_of, plan, binding)) return false;
    plan.proven_optimal = solution.proven_optimal && count <= static_cast<std::size_t>(groups);
    return true;
  }

  /// Replaces the instance's requests by groups of them.
  template <class Task, class S>
  void form_groups(const Task& task, S& state, std::size_t count) const {
    std::vector<InstanceRequest>& requests = state.instance.requests;
    state.order.resize(count);
    state.group.resize(count);
    std::iota(state.order.begin(), state.order.end(), 0u);
    std::stable_sort(state.order.begin(), state.order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return requests[a].slo_s != requests[b].slo_s ? requests[a].slo_s < requests[b].slo_s
                                                    : requests[a].tokens < requests[b].tokens;
    });
    // With as many groups as requests each is one; otherwise each gets its share of the blocks.
    std::int64_t all = 0, before = 0;
    for (std::size_t i = 0; i < count; ++i) all += blocks_of(task, i);
    const std::int64_t parts = std::min<std::int64_t>(groups, static_cast<std::int64_t>(count));
    const bool each = parts == static_cast<std::int64_t>(count);
    state.grouped.clear();
    state.hint.clear();
    std::int64_t part = -1;
    for (std::size_t at = 0; at < count; ++at) {
      const std::uint32_t i = state.order[at];
      const std::int64_t blocks = blocks_of(task, i);
      const std::int64_t of = each ? static_cast<std::int64_t>(at) : (2 * before + blocks) * parts / (2 * all);
      before += blocks;
      if (of != part) {
        part = of;
        state.grouped.push_back({LayerBlocks{0}, Tokens{0}, requests[i].deposit, requests[i].slo_s});
        state.hint.emplace_back();
      }
      InstanceRequest& group = state.grouped.back();
      group.blocks += LayerBlocks{blocks};
      group.deposit = std::min(group.deposit, requests[i].deposit);
      group.slo_s = std::min(group.slo_s, requests[i].slo_s);
      state.hint.back() = task.view.row(task.claims[i].slot).holding.host; // the last is the largest
      state.group[i] = static_cast<std::uint32_t>(state.grouped.size() - 1);
    }
    requests.assign(state.grouped.begin(), state.grouped.end());
  }
  template <class Task>
  [[nodiscard]] std::int64_t blocks_of(const Task& task, std::size_t i) const {
    return task.blocks(task.claims[i], growth).count();
  }
};

using GroupedDistance = BasicGroupedDistance<>;

static_assert(Placement<GroupedDistance>);

} // namespace sluice
