// SPDX-License-Identifier: Apache-2.0
// planning_instance: a placement task in the solvers' form, and their solutions as plans.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/placement/placement.hpp"
#include "sluice/state/plan/instance.hpp"
#include "sluice/state/plan/plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace sluice {

/// Whether a plan must meet the SLO.
enum class SloBound : std::uint8_t {
  enforced, ///< a plan with more misses than alpha allows is infeasible, and Relief chooses a victim
  ignored,  ///< only memory decides what is feasible
};

/// How a placement policy judges plans, besides the task.
struct PlanningOptions {
  /// Misses per step that a plan may have, on average over its window (OrbitFlow, 3.3.1; 1 in the paper).
  double alpha = 1;
  /// How many iterations, back to back from a cold start, a plan is judged by.
  int iterations = 1;
  /// How many complete or partial placements are evaluated before the best plan so far is taken. A count is the same on
  /// every machine, so runs are reproducible. A higher limit proves more plans but hardly finds better ones: 200 serves
  /// users as well as 5,000 in a fraction of the time (docs/planner.md has the figures).
  std::int64_t node_limit = 200;
};

/// The first `count` claims of `task` as an instance; `instance` keeps its memory.
///
/// If more preempted requests have an empty deposit than alpha allows, no plan could meet alpha, and preempting more
/// requests would add to them. The allowance is then what they use up: all running requests must be on time.
template <SloBound Bound = SloBound::enforced, class Task>
void planning_instance(const Task& task, std::size_t count, const PlanningOptions& options, Instance& instance) {
  const View& view = task.view;
  const Work decode = task.steady_decode(count);
  const StepTime time = task.cost.step(decode);
  const BlockLink link = task.block_link();
  instance.layer_compute_s.resize(static_cast<std::size_t>(task.layers()));
  own_layer_times(task.cost, decode, time.layer, instance.layer_compute_s);
  instance.before_s = time.before.count();
  instance.after_s = time.after.count();
  instance.on_link = time.on_link;
  instance.link_blocks_per_s = link.blocks_per_s;
  instance.link_per_layer_s = link.per_layer_s;
  instance.device_blocks = task.device_budget;
  instance.block_tokens = view.limits.block_tokens;
  instance.weights = task.weights;
  const bool alike = view.geometry.alike();
  instance.among = alike ? LayerSet{} : task.among();
  instance.units = view.geometry.moved_units;
  instance.kv = alike ? nullptr : &view.geometry.kv();
  instance.paused_without_deposit = static_cast<int>(task.depleted_preempted);
  instance.alpha = std::max(options.alpha, static_cast<double>(task.depleted_preempted));
  instance.window_min = task.window.min;
  instance.window_max = task.window.max;
  instance.iterations = options.iterations;
  instance.node_limit = options.node_limit;
  instance.requests.clear();
  for (const Claim& claim : task.claims.first(count)) {
    const RequestRow& row = view.row(claim.slot);
    InstanceRequest request;
    request.tokens = row.context() + task.ahead;
    request.deposit = row.deposit().count();
    if (Bound == SloBound::enforced && task.enforce_slo) request.slo_s = row.spec.slo.tbt.count();
    instance.requests.push_back(request);
  }
}

/// Host blocks that the first `count` claims take with the residency `holding_of(i)`.
template <class Task, class HoldingOf>
[[nodiscard]] LayerBlocks host_blocks(const Task& task, std::size_t count, HoldingOf&& holding_of) {
  LayerBlocks host{0};
  for (std::size_t i = 0; i < count; ++i)
    host += task.footprint_of(holding_of(i), task.blocks(task.claims[i], task.window.min)).host;
  return host;
}

/// Makes `plan` what a solver found for the first `count` claims, each with the set `set_of(i)`. False, with `binding`,
/// if it found nothing or the host has no room; `plan` then keeps an earlier answer.
template <class Task, class SetOf>
bool take_solution(const Task& task, std::size_t count, const Solution& solution, SetOf&& set_of, Plan& plan,
                   Binding& binding) {
  plan.effort += solution.nodes;
  if (!solution.feasible) {
    binding = solution.binding;
    return false;
  }
  const auto holding_of = [&](std::size_t i) { return Holding{all_tokens, set_of(i), {}}; };
  if (host_blocks(task, count, holding_of) > task.host_budget) {
    binding = Binding::host_memory;
    return false;
  }
  plan.requests.clear();
  plan.covers_unseen = false;
  for (std::size_t i = 0; i < count; ++i) plan.requests.push_back({task.claims[i].slot, holding_of(i)});
  plan.in_flight = LayerBlocks{static_cast<std::int64_t>(math::ceil(solution.buffer_blocks))};
  plan.predicted_step = Seconds{solution.step_s};
  plan.lower_bound = Seconds{solution.lower_bound_s};
  plan.proven_optimal = solution.proven_optimal;
  plan.binding = solution.binding;
  plan.expires_at_step = task.view.step + solution.window;
  return true;
}

/// The verdict of a policy whose `plan_for(count, binding)` is `take_solution` of a search. Unlike
/// `join_longest_prefix` it tries all claims first, and searches no count twice: `plan` keeps the last feasible answer,
/// which is the one for the prefix that joins.
template <class Task, class PlanFor>
[[nodiscard]] Verdict join_searched_prefix(const Task& task, Plan& plan, PlanFor&& plan_for) {
  plan.effort = 0;
  Binding binding = Binding::none;
  const auto feasible = [&](std::size_t count) { return plan_for(count, binding); };
  if (feasible(task.claims.size())) return {true, task.claims.size() - task.required, plan.binding};
  if (task.claims.size() == task.required) return Verdict::infeasible(binding);
  if (task.required > 0 && !feasible(task.required)) return Verdict::infeasible(binding);
  const std::size_t joined = longest_prefix(task.required, task.claims.size() - 1, feasible);
  return {true, joined, task.required + joined > 0 ? plan.binding : binding};
}

// RequestGroups: a search's requests as few groups of like ones.

/// Requests of one SLO and about one size are alike to the evaluator, since a layer waits for the sum of its transfers
/// however they divide the link. Groups have about equal KV: sorted by SLO and size, cut where a part is full.
class RequestGroups {
 public:
  /// Replaces `requests` by at most `most` groups of them, each as strict as its strictest member. Request i has
  /// `blocks_of(i)` blocks per layer, constant. With as many groups as requests each is one.
  template <class BlocksOf>
  void form(std::vector<InstanceRequest>& requests, std::int64_t most, BlocksOf&& blocks_of) {
    const std::size_t count = requests.size();
    sort(requests);
    group_.resize(count);
    std::int64_t all = 0, before = 0;
    for (std::size_t i = 0; i < count; ++i) all += blocks_of(i);
    const std::int64_t parts = std::min<std::int64_t>(most, static_cast<std::int64_t>(count));
    const bool each = parts == static_cast<std::int64_t>(count);
    groups_.clear();
    largest_.clear();
    std::int64_t part = -1;
    for (std::size_t at = 0; at < count; ++at) {
      const std::uint32_t i = order_[at];
      const std::int64_t blocks = blocks_of(i);
      const std::int64_t of = each ? static_cast<std::int64_t>(at) : (2 * before + blocks) * parts / (2 * all);
      before += blocks;
      if (of != part) {
        part = of;
        groups_.push_back({LayerBlocks{0}, Tokens{0}, requests[i].deposit, requests[i].slo_s});
        largest_.emplace_back();
      }
      InstanceRequest& group = groups_.back();
      group.blocks += LayerBlocks{blocks};
      group.deposit = std::min(group.deposit, requests[i].deposit);
      group.slo_s = std::min(group.slo_s, requests[i].slo_s);
      largest_.back() = i;
      group_[i] = static_cast<std::uint32_t>(groups_.size() - 1);
    }
    requests.assign(groups_.begin(), groups_.end());
  }

  /// The group of a request.
  [[nodiscard]] std::size_t of(std::size_t request) const { return group_[request]; }
  /// Each group's largest request.
  [[nodiscard]] const std::vector<std::uint32_t>& largest() const { return largest_; }

 private:
  /// By SLO, then by size, then as they came. A template, so that only a program that forms groups compiles the sort.
  template <class Requests>
  void sort(const Requests& requests) {
    order_.resize(requests.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return requests[a].slo_s != requests[b].slo_s ? requests[a].slo_s < requests[b].slo_s
                                                    : requests[a].tokens < requests[b].tokens;
    });
  }

  std::vector<std::uint32_t> order_, group_, largest_;
  std::vector<InstanceRequest> groups_;
};

} // namespace sluice
