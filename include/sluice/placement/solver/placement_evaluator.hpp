// SPDX-License-Identifier: Apache-2.0
// PlacementEvaluator: what a given placement costs, whether it fits, and how long it holds.
#pragma once

#include "sluice/plan/instance.hpp"
#include "sluice/plan/solution.hpp"
#include "sluice/transfer/buffer_count.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace sluice {

/// A rule whose times and buffers follow from the per-layer sums alone.
template <class Rule>
concept LoadRule = requires(const Pipeline& pipeline, std::span<const double> loads, typename Rule::State& state) {
  Rule::evaluate_loads(pipeline, loads, state);
};

/// A placement seen at one step of its window.
struct PlacementCost {
  double resident_blocks = 0;
  double buffer_blocks = 0;
  bool fits = false;
  StepCost step; ///< mean over the iterations; infinite where the rule cannot run in the room there is
};

/// How a placement holds up over the instance's window.
struct WindowCheck {
  int window = 0;                  ///< the longest of [min, max] that holds, or 0
  Binding binding = Binding::none; ///< if 0: `device_memory` or `slo`
};

/// The objective and the constraints of planning, defined once: solvers, tests and `sluice-plan` all ask here.
/// Keeps its scratch memory, so that a second instance of the same size allocates nothing.
template <TransferScheduler Rule, BufferCount<Rule> Count = HeldBuffer>
class PlacementEvaluator {
 public:
  /// `offloaded`: one set per request of the instance. `step`: steps after the first; KV has grown by so many tokens.
  PlacementCost cost(const Instance& instance, std::span<const LayerSet> offloaded, int step = 0) {
    SLUICE_ASSERT(offloaded.size() == instance.requests.size(), "one set per request");
    NoTimeline none;
    return run(instance, offloaded, step, none);
  }

  /// The same, with the timeline of the last iteration told to `sink`.
  template <class Sink>
  PlacementCost explain(const Instance& instance, std::span<const LayerSet> offloaded, Sink& sink) {
    return run(instance, offloaded, 0, sink);
  }

  /// The window through which the placement holds: memory at every step, and misses per step at most alpha on average.
  ///
  /// Request r misses step t (from 1) if the tokens made by then, deposit_r + t, are fewer than one per SLO of the time
  /// elapsed. A paused request without a deposit misses every step. (OrbitFlow, 3.3.1, with deposits.)
  /// `first`: the cost at the first step, which the caller has already.
  WindowCheck hold(const Instance& instance, std::span<const LayerSet> offloaded, const PlacementCost& first) {
    WindowCheck result;
    result.binding = Binding::device_memory;
    const bool slo = instance.has_slo();
    bool grows = false;
    for (const InstanceRequest& request : instance.requests) grows |= request.tokens > Tokens{0};
    double elapsed_s = 0;
    double misses = 0;
    PlacementCost now = first;
    int next_growth = grows ? 1 + steps_without_growth(instance, 0) : instance.window_max + 1;
    for (int t = 1; t <= instance.window_max; ++t) {
      if (t == next_growth + 1) { // only a new block changes anything: a token in every sixteen, of each request
        now = slo ? cost(instance, offloaded, t - 1) : memory(instance, offloaded, t - 1);
        next_growth = t + steps_without_growth(instance, t - 1);
      }
      if (!now.fits) break;
      if (t >= instance.window_min) result.binding = Binding::slo;
      if (!slo && !grows) {
        result.window = instance.window_max;
        break;
      }
      if (slo) {
        elapsed_s += now.step.step_s;
        misses += instance.paused_without_deposit;
        for (const InstanceRequest& request : instance.requests)
          if (misses_step(request, t, elapsed_s)) misses += 1;
      }
      if (misses > instance.alpha * instance.window_max + 1e-9) { // no longer window can make up for them
        // KV only grows: what fits at the last step of the shortest window fits at all before it.
        if (memory(instance, offloaded, instance.window_min - 1).fits) result.binding = Binding::slo;
        break;
      }
      if (t >= instance.window_min && misses <= instance.alpha * t + 1e-9) result.window = t;
    }
    if (result.window > 0) result.binding = Binding::none;
    return result;
  }

  /// A miss has to be one by more than rounding: 1e-9 of a token.
  static bool misses_step(const InstanceRequest& request, int step, double elapsed_s) {
    return static_cast<double>(request.deposit + step) < elapsed_s / request.slo_s - 1e-9;
  }

 private:
  /// Steps after `step` for which every request's last block still has room.
  static int steps_without_growth(const Instance& instance, int step) {
    const std::int64_t size = instance.block_tokens.count();
    std::int64_t least = std::numeric_limits<int>::max() / 2;
    for (const InstanceRequest& request : instance.requests)
      if (request.tokens > Tokens{0}) least = std::min(least, (size - (request.tokens.count() + step) % size) % size);
    return static_cast<int>(least);
  }

  PlacementCost memory(const Instance& instance, std::span<const LayerSet> offloaded, int step) {
    PlacementCost result;
    const int layers = instance.layers();
    streams_.clear();
    LayerArray loads;
    std::fill_n(loads.begin(), layers, 0.0);
    if (!instance.extra_blocks.empty())
      std::copy(instance.extra_blocks.begin(), instance.extra_blocks.end(), loads.begin());
    for (std::size_t r = 0; r < offloaded.size(); ++r) {
      const double blocks = instance.blocks_at(r, step);
      result.resident_blocks += blocks * (layers - offloaded[r].count());
      if (offloaded[r].empty() || blocks <= 0) continue;
      streams_.push_back({offloaded[r], blocks});
      offloaded[r].for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] += blocks; });
    }
    result.buffer_blocks = Count::template blocks<Rule>(
        std::span<const double>{loads.data(), instance.layer_compute_s.size()}, std::span<const LayerStream>{streams_});
    const auto budget = static_cast<double>(instance.device_blocks.count());
    result.fits = result.resident_blocks + result.buffer_blocks <= budget + 1e-9 * budget;
    return result;
  }

  template <class Sink>
  PlacementCost run(const Instance& instance, std::span<const LayerSet> offloaded, int step, Sink& sink) {
    PlacementCost result = memory(instance, offloaded, step);
    Pipeline pipeline;
    pipeline.compute_s = instance.layer_compute_s;
    pipeline.before_s = instance.before_s;
    pipeline.after_s = instance.after_s;
    pipeline.link = {instance.link_blocks_per_s, instance.link_per_layer_s};
    pipeline.streams = streams_;
    pipeline.extra_blocks = instance.extra_blocks;
    pipeline.room_blocks = static_cast<double>(instance.device_blocks.count()) - result.resident_blocks;
    if constexpr (Rule::needs_room) {
      // A pool smaller than its worst layer never fills it: there is no such iteration.
      LayerArray loads{};
      detail::layer_loads(pipeline, loads);
      const double worst = *std::max_element(loads.begin(), loads.begin() + instance.layers());
      if (worst > pipeline.room_blocks * (1 + 1e-9)) {
        constexpr double never = std::numeric_limits<double>::infinity();
        result.step = {never, never};
        return result;
      }
    }
    state_.clear();
    StepCost total;
    for (int i = 0; i < instance.iterations; ++i) {
      StepCost part;
      if (i + 1 == instance.iterations)
        part = Rule::evaluate(pipeline, state_, sink);
      else
        part = Rule::evaluate(pipeline, state_);
      total.step_s += part.step_s;
      total.stall_s += part.stall_s;
    }
    result.step = {total.step_s / instance.iterations, total.stall_s / instance.iterations};
    return result;
  }

  std::vector<LayerStream> streams_;
  typename Rule::State state_;
};

} // namespace sluice
