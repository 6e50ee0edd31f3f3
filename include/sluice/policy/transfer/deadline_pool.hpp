// SPDX-License-Identifier: Apache-2.0
// DeadlinePool: one pool of blocks, filled in layer order as fast as link and room allow. The default rule.
#pragma once

#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/policy/transfer/transfer_scheduler.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

namespace sluice {

/// Blocks move in the order in which layers need them. Each takes room in the pool from its arrival until its layer has
/// been computed, like a copy stream with a shared ring of blocks. Streamed weights move in the same order, each
/// layer's after its KV. They use slots of their own; while no slot is free, everything after them waits.
///
/// Only W(t), the number of blocks moved so far, matters. It grows at the link's rate while W < room + (blocks of the
/// layers already computed); layer l starts when W reaches C_l, the blocks of layers 1..l. With M = max(link free,
/// end(j) - (room + C_{j-1}) / rate over the layers j whose room is needed), the blocks of layer l have arrived at M +
/// C_l / rate: one pass with two pointers over the per-layer sums, O(L) for any number of requests.
struct DeadlinePool {
  using role = roles::Transfer;
  static constexpr std::string_view name = "deadline-pool";
  static constexpr bool needs_room = true;
  static constexpr TransferOrder order{TransferOrder::Start::room, TransferOrder::Share::nearest};

  struct State {
    double ahead_blocks =
        0; ///< blocks of the next token, in layer order, that are already on the device, weights included
    double latency_paid_s =
        0; ///< latency paid for the layer in which `ahead_blocks` ends, if none of its blocks has arrived yet
    double background_blocks = 0; ///< blocks of a plan change still to be moved

    void clear() { *this = State{}; }
  };

  /// The pool is all memory that the resident blocks leave; it must hold the worst layer.
  static double held_blocks(std::span<const double> loads, std::span<const LayerStream> /*streams*/) {
    return loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
  }

  template <class Sink = NoTimeline>
  static StepCost evaluate(const Pipeline& pipeline, State& state, Sink&& sink = Sink{}) {
    LayerArray loads;
    detail::layer_loads(pipeline, loads);
    return evaluate_loads(pipeline, {loads.data(), pipeline.compute_s.size()}, state, sink);
  }

  /// The same from the per-layer sums alone. `loads`: L entries of KV, in blocks; `pipeline.streams` is not read. The
  /// room must hold the worst layer.
  template <class Sink = NoTimeline>
  static StepCost evaluate_loads(const Pipeline& pipeline, std::span<const double> loads, State& state,
                                 Sink&& sink = Sink{}) {
    return detail::walk_told(sink, [&](auto& told) { return walk(pipeline, loads, state, told); });
  }

  /// What a cold iteration needs besides the plan, for `cold_step_s`: no link latency, and nothing urgent to move.
  struct Cold {
    std::span<const double> compute_s;
    double before_s = 0;
    double after_s = 0;
    double seconds_per_block = 0;
  };

  /// A cold iteration's time in seconds, without records or state: planners call it millions of times. `loads`: L
  /// entries in blocks, the largest at most `room`. Stops early, with some time of at least `limit_s`, once the
  /// iteration is known to take that long (`rest_s[l]`: compute from the start of layer l on).
  static double cold_step_s(const Cold& cold, std::span<const double> loads, double room, const double* rest_s,
                            double limit_s);

 private:
  template <class Sink>
  struct Walk;
  template <class Sink>
  static StepCost walk(const Pipeline& pipeline, std::span<const double> loads, State& state, Sink& sink);
};

static_assert(TransferScheduler<DeadlinePool>);

template <>
struct Default<roles::Transfer> {
  using type = DeadlinePool;
};

} // namespace sluice

#ifdef SLUICE_COMPILED
namespace sluice {
extern template StepCost DeadlinePool::walk(const Pipeline&, std::span<const double>, DeadlinePool::State&,
                                            NoTimeline&);
extern template StepCost DeadlinePool::walk(const Pipeline&, std::span<const double>, DeadlinePool::State&,
                                            AnyTimeline&);
} // namespace sluice
#else
#include "sluice/policy/transfer/deadline_pool.inl.hpp"
#endif
