// SPDX-License-Identifier: Apache-2.0
// Instance: one planning problem as plain numbers; with names, PlanningProblem; solved, Solution.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/math.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/state/plan/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// A request of an instance.
struct InstanceRequest {
  LayerBlocks blocks{0};    ///< blocks of one layer at the plan's first step; ignored if `tokens` is set
  Tokens tokens{0};         ///< KV tokens at the plan's first step, one more per step; 0: `blocks` stays constant
  std::int64_t deposit = 0; ///< tokens generated and not yet released to the user
  double slo_s = std::numeric_limits<double>::infinity(); ///< the user must get a token every `slo_s`; infinite: no SLO

  friend bool operator==(const InstanceRequest&, const InstanceRequest&) = default;
};

/// A planning problem: which layers of which requests to offload, so that the next iteration is shortest and memory and
/// SLO hold. Blocks are layer blocks throughout; layers are counted from 0.
///
/// A caller that plans every step reuses one object: its vectors keep their capacity.
struct Instance {
  std::vector<double> layer_compute_s; ///< one per layer, > 0
  double before_s = 0;                 ///< computed before the first layer
  double after_s = 0;                  ///< computed after the last
  double on_link = 0;                  ///< share of all that time that also uses the link (`contended`), in [0, 1)
  double link_blocks_per_s = 1;        ///< > 0
  double link_per_layer_s = 0;         ///< link time of a layer's transfer on top of its blocks
  LayerBlocks device_blocks{0};        ///< the KV budget for resident blocks and blocks in flight together
  Tokens block_tokens{16};
  std::vector<InstanceRequest> requests;
  WeightStream weights;           ///< streamed with any plan; weights have slots of their own
  LayerSet among{};               ///< layers that may be offloaded; empty: all
  std::int64_t units = 1;         ///< layer blocks in a token block of each of these
  const KvBlocks* kv = nullptr;   ///< what layers keep, if not all do the same; it outlives the instance
  double alpha = 1;               ///< allowed misses per step, on average over the window
  int paused_without_deposit = 0; ///< paused requests with an empty deposit: each misses in every step
  int window_min = 1;             ///< steps for which the plan must hold
  int window_max = 1;             ///< steps for which the plan need hold at most
  int iterations = 1;             ///< run back to back from a cold start; the objective is their mean step
  double deadline_s = std::numeric_limits<double>::infinity(); ///< for the solver; infinite: until the plan is proven
  /// For the solver, in search nodes: like `deadline_s`, but the same on every machine. The engine's simulator plans
  /// with it.
  std::int64_t node_limit = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] int layers() const { return static_cast<int>(layer_compute_s.size()); }
  /// The layers that may be offloaded.
  [[nodiscard]] LayerSet movable() const { return among.empty() ? LayerSet::all(layers()) : among; }
  [[nodiscard]] bool has_slo() const {
    for (const InstanceRequest& request : requests)
      if (math::isfinite(request.slo_s)) return true;
    return false;
  }
  /// The layer blocks of a request per layer, `step` steps after the first.
  [[nodiscard]] double blocks_at(std::size_t request, int step) const {
    const InstanceRequest& r = requests[request];
    if (r.tokens.count() <= 0) return static_cast<double>(r.blocks.count());
    return static_cast<double>(blocks_for(r.tokens + Tokens{step}, block_tokens).count() * units);
  }
  /// The layer blocks of all requests in the layers that stay on the device, `step` steps after the first.
  [[nodiscard]] double staying_at(int step) const {
    if (kv == nullptr) return 0;
    const LayerSet stay = LayerSet::all(layers()) - movable();
    std::int64_t sum = 0;
    for (const InstanceRequest& request : requests) {
      const std::int64_t blocks = blocks_for(request.tokens + Tokens{step}, block_tokens).count();
      sum += kv->room(0, blocks, blocks, stay);
    }
    return static_cast<double>(sum);
  }
  /// The blocks that the device has for layers that may be offloaded, at the first step.
  [[nodiscard]] double movable_budget() const { return static_cast<double>(device_blocks.count()) - staying_at(0); }
  /// Blocks of all requests at the first step, in the layers that may be offloaded.
  [[nodiscard]] double total_blocks() const {
    double sum = 0;
    for (std::size_t r = 0; r < requests.size(); ++r) sum += blocks_at(r, 0);
    return sum * movable().count();
  }
};

/// A starting point for the planner: the last plan's choice, one set per request of the instance, or nothing. It
/// changes how soon the optimum is found, never the cost that is proven.
struct Hint {
  std::span<const LayerSet> offloaded;
};

/// Checks an instance; the error says in one line what is wrong. Solvers expect a checked instance.
Status check(const Instance& instance);

// Solution: what a planner found, what it proved, and why there is no better plan.

/// The outcome of planning an `Instance`. Plain and printable.
struct Solution {
  bool feasible = false;
  /// What prevents any plan if infeasible (`device_memory`, `slo`), otherwise what prevents a better one. `search`: the
  /// search ended before a feasible plan was found, so the planner cannot say whether there is one.
  Binding binding = Binding::none;
  std::vector<LayerSet> offloaded; ///< one set per request, layers from 0; the least bad one if infeasible
  double resident_blocks = 0;
  double buffer_blocks = 0;                                 ///< in flight, by the planner's buffer count
  double step_s = std::numeric_limits<double>::infinity();  ///< mean over the instance's iterations
  double stall_s = std::numeric_limits<double>::infinity(); ///< the same
  double lower_bound_s = 0;                                 ///< no feasible plan in the space is shorter
  bool proven_optimal = false;                              ///< no feasible plan in the space is shorter than this one
  int window = 0; ///< the longest of [min, max] for which memory and SLO hold; 0 if infeasible
  /// The second best cost found: an upper bound on the cost of the next best plan; infinite if none was found.
  double next_best_s = std::numeric_limits<double>::infinity();
  std::int64_t nodes = 0; ///< partial plans examined and plans evaluated
};

// PlanningProblem: an instance with names, and a transfer rule, space and buffer count chosen at run time.
enum class TransferKind : std::uint8_t { next_layer, fair_share, earliest_deadline_first, deadline_pool };
enum class SpaceKind : std::uint8_t { distance, even, free };
enum class BufferKind : std::uint8_t { held, paper };

/// The content of a planning problem's file: programs read it, engines never need it.
struct PlanningProblem {
  Instance instance;
  std::vector<std::string> ids; ///< one per request of the instance
  TransferKind transfer = TransferKind::deadline_pool;
  SpaceKind space = SpaceKind::distance;
  BufferKind buffer = BufferKind::held;
  std::optional<std::vector<LayerSet>> placement; ///< to evaluate instead of solving
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/state/plan/instance.inl.hpp"
#endif
