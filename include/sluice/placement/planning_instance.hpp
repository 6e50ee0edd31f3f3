// SPDX-License-Identifier: Apache-2.0
// planning_instance: a placement task, as the solvers take it.
#pragma once

#include "sluice/placement/placement.hpp"
#include "sluice/plan/instance.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// Whether a plan must meet the SLO, or is only the fastest that fits.
enum class SloBound : std::uint8_t {
  enforced, ///< a plan that misses more than alpha allows is infeasible, and Relief chooses a request to give way
  ignored,  ///< memory alone decides what is feasible
};

/// How a placement policy judges plans, besides what the task says.
struct PlanningOptions {
  /// Misses per step that a plan may take, on average over its window (OrbitFlow, 3.3.1; 1 in the paper).
  double alpha = 1;
  /// Iterations back to back, from cold, over which a plan is judged.
  int iterations = 1;
  /// Placements, whole or in part, that are evaluated before the best plan found is taken: the same on every machine,
  /// so that runs are reproducible. More of them prove more plans and find hardly better ones: users get the same from
  /// 200 as from 5,000, in a small part of the time (docs/planner.md has the figures).
  std::int64_t node_limit = 200;
};

/// The first `count` claims of `task` as an instance; `instance` keeps its memory.
///
/// Where more preempted requests have an empty deposit than alpha allows, no plan could meet it, and preempting more
/// requests would only add to them. The allowance then is what they use up: the running requests must all be on time.
template <SloBound Bound = SloBound::enforced, class Task>
void planning_instance(const Task& task, std::size_t count, const PlanningOptions& options, Instance& instance) {
  const View& view = task.view;
  const StepTime time = task.cost.step(task.steady_decode(count));
  const BlockLink link = task.block_link();
  instance.layer_compute_s.assign(static_cast<std::size_t>(task.layers()), time.layer.count());
  instance.before_s = time.before.count();
  instance.after_s = time.after.count();
  instance.on_link = time.on_link;
  instance.link_blocks_per_s = link.blocks_per_s;
  instance.link_per_layer_s = link.per_layer_s;
  instance.device_blocks = task.device_budget;
  instance.block_tokens = view.limits.block_tokens;
  instance.weights = task.weights;
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
    request.tokens = row.context();
    request.deposit = row.deposit().count();
    if (Bound == SloBound::enforced && task.enforce_slo) request.slo_s = row.spec.slo.tbt.count();
    instance.requests.push_back(request);
  }
}

/// Host blocks that the first `count` claims take with `holding_of(i)` away.
template <class Task, class HoldingOf>
[[nodiscard]] LayerBlocks host_blocks(const Task& task, std::size_t count, HoldingOf&& holding_of) {
  LayerBlocks host{0};
  for (std::size_t i = 0; i < count; ++i)
    host += task.footprint_of(holding_of(i), task.blocks(task.claims[i], task.window.min)).host;
  return host;
}

} // namespace sluice
