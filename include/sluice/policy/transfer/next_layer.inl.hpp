// SPDX-License-Identifier: Apache-2.0
// An iteration under NextLayer, layer by layer.
#pragma once

#include "sluice/policy/transfer/next_layer.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace sluice {

template <class Sink>
StepCost NextLayer::walk(const Pipeline& pipeline, std::span<const double> loads, State& state, Sink& sink) {
  constexpr bool record = Sink::enabled;
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
  int streamed = 0; // layers of the weights that have been fetched so far
  // The weights are the last of a layer's work, because they wait for a slot; the first of its work pays the latency.
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
        // The first layer could not start earlier; a later one waited until the rule allowed its transfer to start.
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

} // namespace sluice
