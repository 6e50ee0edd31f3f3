// SPDX-License-Identifier: Apache-2.0
// NextLayer: each layer is fetched while the one before it computes (DeepSpeed, FlexGen).
#pragma once

#include "sluice/transfer/slot_order.hpp"
#include "sluice/transfer/transfer_scheduler.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

namespace sluice {

/// A layer's transfer may start when the layer before it starts to compute; the first one's at once, and a later
/// token's when the last layer of the token before starts.
///
/// Streamed weights start so too, once they have a slot. Only one layer is then in flight at any time: when layer l-1
/// starts, its own blocks have arrived. Equal shares within it do not matter, because the layer waits for the last of
/// them. So the per-layer sums are enough, O(L).
struct NextLayer {
  using role = roles::Transfer;
  static constexpr std::string_view name = "next-layer";
  static constexpr bool needs_room = false;
  static constexpr TransferOrder order{TransferOrder::Start::previous_layer_starts, TransferOrder::Share::equal};

  struct State {
    double ahead_link_s = 0;      ///< link work already done for the next token's first layer
    double background_blocks = 0; ///< of a plan's delta, not moved yet

    void clear() { *this = State{}; }
  };

  /// Two adjacent layers: one computes, one arrives. The last is followed by the first of the next token.
  static double held_blocks(std::span<const double> loads, std::span<const LayerStream> /*streams*/) {
    double worst = 0;
    for (std::size_t l = 0; l < loads.size(); ++l) {
      const std::size_t following = l + 1 < loads.size() ? l + 1 : 0;
      worst = std::max(worst, loads[l] + loads[following]);
    }
    return worst;
  }

  template <class Sink = NoTimeline>
  static StepCost evaluate(const Pipeline& pipeline, State& state, Sink&& sink = Sink{}) {
    LayerArray loads;
    detail::layer_loads(pipeline, loads);
    return evaluate_loads(pipeline, {loads.data(), pipeline.compute_s.size()}, state, sink);
  }

  /// The same from the per-layer sums alone, in blocks, L entries.
  template <class Sink = NoTimeline>
  static StepCost evaluate_loads(const Pipeline& pipeline, std::span<const double> loads, State& state,
                                 Sink&& sink = Sink{}) {
    constexpr bool record = std::decay_t<Sink>::enabled;
    const std::size_t layers = loads.size();
    SLUICE_ASSERT(layers > 0, "a model has layers");
    const double seconds_per_block = 1.0 / pipeline.link.blocks_per_s;
    const detail::SlotOrder slots{pipeline.weights};
    const auto streams_weights = [&](std::size_t layer) {
      return pipeline.weights.layers.contains(static_cast<int>(layer));
    };
    const double weights_s = pipeline.weights.blocks * seconds_per_block;
    const auto work = [&](std::size_t layer) {
      const double work_s = loads[layer] * seconds_per_block + (streams_weights(layer) ? weights_s : 0);
      return work_s > 0 ? work_s + pipeline.link.per_layer_s : 0;
    };

    const double background = state.background_blocks + pipeline.background_blocks;
    double link_s = detail::urgent(pipeline) * seconds_per_block; // when the link is free
    double busy_s = link_s;
    double may_start_s = 0;
    double done_s = state.ahead_link_s;
    LayerArray end_s;
    int streamed = 0; // layers of the weights so far
    // Of a layer's work the weights come last, for they wait for a slot; the latency comes with whatever is first.
    const auto gated_s = [&](std::size_t layer) {
      if (!streams_weights(layer)) return 0.0;
      return weights_s + (loads[layer] > 0 ? 0 : pipeline.link.per_layer_s);
    };
    const auto slot_free_s = [&](int i) {
      const int freed_by = slots.waits_for(i);
      return freed_by < 0 ? 0.0 : end_s[static_cast<std::size_t>(freed_by)];
    };
    double stall_s = 0;
    double time = pipeline.clock.after(0, pipeline.before_s);
    for (std::size_t l = 0; l < layers; ++l) {
      double start = l == 0 ? std::max(time, detail::first_layer_s(pipeline)) : time;
      StallCause cause = start > time ? StallCause::link : StallCause::none;
      const double rest_s = std::max(0.0, work(l) - done_s);
      done_s = 0;
      if (rest_s > 0) {
        const double begin = std::max(link_s, may_start_s);
        const double gated = std::min(rest_s, gated_s(l));
        link_s = begin + rest_s - gated;
        if (gated > 0) link_s = std::max(link_s, slot_free_s(streamed)) + gated;
        busy_s += rest_s;
        detail::tell_link(sink, pipeline.clock, begin, link_s);
        if (link_s > start) {
          start = link_s;
          // The first layer could not have begun earlier; a later one waited for the leave to start.
          cause = l == 0 ? StallCause::link : StallCause::room;
        }
        if constexpr (record)
          sink.transfer(-1, static_cast<int>(l), pipeline.clock.seconds(begin), pipeline.clock.seconds(link_s));
      }
      const double waited_s = pipeline.clock.seconds(start) - pipeline.clock.seconds(time);
      stall_s += waited_s;
      may_start_s = start;
      time = end_s[l] = pipeline.clock.after(start, pipeline.compute_s[l]);
      if constexpr (record)
        sink.layer(static_cast<int>(l), pipeline.clock.seconds(start), pipeline.clock.seconds(time), waited_s, cause);
      if (streams_weights(l)) ++streamed;
    }
    time = pipeline.clock.after(time, pipeline.after_s);
    const double begin = std::max(link_s, may_start_s);
    const double gated = gated_s(0);
    const double free_s = work(0) - gated;
    state.ahead_link_s = std::clamp(time - begin, 0.0, free_s);
    if (gated > 0)
      state.ahead_link_s += std::clamp(time - std::max(begin + free_s, slot_free_s(slots.count())), 0.0, gated);
    if (state.ahead_link_s > 0) {
      const double ends_s = gated > 0 ? std::max(begin + free_s, slot_free_s(slots.count())) + gated : begin + free_s;
      detail::tell_link(sink, pipeline.clock, begin, std::min(time, ends_s));
    }
    busy_s += state.ahead_link_s;
    detail::tell_link(sink, pipeline.clock, 0,
                      std::min(time, background > 0 ? busy_s + background * seconds_per_block
                                                    : detail::urgent(pipeline) * seconds_per_block));
    state.background_blocks = detail::background_left(background, time - busy_s, pipeline.link);
    return {pipeline.clock.seconds(time), stall_s, busy_s};
  }
};

static_assert(TransferScheduler<NextLayer>);

} // namespace sluice
