// SPDX-License-Identifier: Apache-2.0
// An iteration under EarliestDeadlineFirst, layer by layer.
#pragma once

#include "sluice/policy/transfer/buffered_streams.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sluice {

template <class Sink>
StepCost EarliestDeadlineFirst::walk(const Pipeline& pipeline, State& state, Sink& sink) {
  constexpr bool record = Sink::enabled;
  const std::size_t layers = pipeline.compute_s.size();
  const detail::BufferedStreams streams{pipeline};
  const LinkClock clock = pipeline.clock;

  std::array<double, 2 * max_layers> pending; // link work released for each layer of this token and the next
  std::fill_n(pending.begin(), 2 * layers, 0.0);
  for (std::size_t s = 0; s < streams.requests(); ++s)
    if (const int first = streams.first(s); first >= 0)
      pending[static_cast<std::size_t>(first)] += streams.work_s(s, first);
  const detail::SlotOrder slots{pipeline.weights};
  int released = 0; // layers of the weights released, of this token and then the next
  const auto release = [&](int computed) {
    for (; released < slots.released(computed); ++released)
      pending[slots.position(released, layers)] += streams.work_s(streams.requests(), slots.layer(released));
  };
  release(0);
  for (std::size_t l = 0; l < layers; ++l) pending[l] = std::max(0.0, pending[l] - state.ahead_link_s[l]);

  const double background = state.background_blocks + pipeline.background_blocks;
  double link_s = detail::urgent(pipeline) / pipeline.link.blocks_per_s;
  double busy_s = link_s;
  bool idled = false;
  std::size_t nearest = 0; // no work is pending below it
  std::array<double, record ? 2 * max_layers : 1> begun;
  if constexpr (record) begun.fill(-1);
  const auto serve_until = [&](double until) {
    while (link_s < until) {
      while (nearest < 2 * layers && pending[nearest] <= 0) ++nearest;
      if (nearest == 2 * layers) {
        idled = true;
        link_s = until;
        return;
      }
      if constexpr (record)
        if (begun[nearest] < 0) begun[nearest] = link_s;
      const double part = std::min(pending[nearest], until - link_s);
      busy_s += part;
      detail::tell_link(sink, clock, link_s, link_s + part);
      if (part == pending[nearest]) {
        pending[nearest] = 0;
        link_s += part;
        if constexpr (record)
          sink.transfer(-1, static_cast<int>(nearest), clock.seconds(begun[nearest]), clock.seconds(link_s));
      } else {
        pending[nearest] -= part;
        link_s = until;
      }
    }
  };

  int weights_computed = 0;
  double stall_s = 0;
  double time = clock.after(0, pipeline.before_s);
  for (std::size_t l = 0; l < layers; ++l) {
    double start = l == 0 ? std::max(time, detail::first_layer_s(pipeline)) : time;
    StallCause cause = start > time ? StallCause::link : StallCause::none;
    serve_until(start);
    if (pending[l] > 0) { // the nearest of all layers has the whole link
      if constexpr (record)
        if (begun[l] < 0) begun[l] = link_s;
      start = link_s + pending[l];
      busy_s += pending[l];
      detail::tell_link(sink, clock, link_s, start);
      pending[l] = 0;
      link_s = start;
      cause = idled ? StallCause::room : StallCause::link;
      if constexpr (record) sink.transfer(-1, static_cast<int>(l), clock.seconds(begun[l]), clock.seconds(start));
    }
    const double waited_s = clock.seconds(start) - clock.seconds(time);
    stall_s += waited_s;
    time = clock.after(start, pipeline.compute_s[l]);
    if constexpr (record) sink.layer(static_cast<int>(l), clock.seconds(start), clock.seconds(time), waited_s, cause);
    serve_until(time);
    if (pipeline.weights.layers.contains(static_cast<int>(l))) {
      release(++weights_computed);
      nearest = 0;
    }
    for (std::size_t s = 0; s < streams.requests(); ++s) {
      if (!streams.uses(s, static_cast<int>(l))) continue;
      const int next = streams.after(s, static_cast<int>(l));
      const std::size_t target =
          static_cast<std::size_t>(next >= 0 ? next : streams.first(s) + static_cast<int>(layers));
      pending[target] += streams.work_s(s, next >= 0 ? next : streams.first(s));
      nearest = std::min(nearest, target);
    }
  }
  if (pipeline.after_s > 0) {
    time = clock.after(time, pipeline.after_s);
    serve_until(time);
  }

  // The work done for the next token: all that its first layers need, minus what is still pending.
  std::fill_n(state.ahead_link_s.begin(), layers, 0.0);
  for (std::size_t s = 0; s < streams.requests(); ++s)
    if (const int first = streams.first(s); first >= 0)
      state.ahead_link_s[static_cast<std::size_t>(first)] += streams.work_s(s, first);
  for (int i = slots.count(); i < released; ++i)
    state.ahead_link_s[static_cast<std::size_t>(slots.layer(i))] += streams.work_s(streams.requests(), slots.layer(i));
  for (std::size_t l = 0; l < layers; ++l)
    state.ahead_link_s[l] = std::max(0.0, state.ahead_link_s[l] - pending[layers + l]);
  const double urgent_s = detail::urgent(pipeline) / pipeline.link.blocks_per_s;
  detail::tell_link(sink, clock, 0,
                    std::min(time, background > 0 ? busy_s + background / pipeline.link.blocks_per_s : urgent_s));
  state.background_blocks = detail::background_left(background, time - busy_s, pipeline.link);
  return {clock.seconds(time), stall_s, busy_s};
}

} // namespace sluice
