// SPDX-License-Identifier: Apache-2.0
// An iteration under DeadlinePool: one pass with two pointers, and the short form that planners call.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace sluice {

SLUICE_INLINE double DeadlinePool::cold_step_s(const Cold& cold, std::span<const double> loads, double room,
                                               const double* rest_s, double limit_s) {
  LayerArray freed_at; // end(j) - (room + C_{j-1}) / rate
  double moved = 0;
  double link = 0;
  double freed = room; // room + C_{j-1} of the next layer j whose room has not been requested
  std::size_t next = 0;
  double time = cold.before_s;
  for (std::size_t l = 0; l < loads.size(); ++l) {
    const double load = loads[l];
    if (load > 0) {
      moved += load;
      for (; freed < moved && next < l; ++next) {
        link = std::max(link, freed_at[next]);
        freed += loads[next];
      }
      const double arrival = link + moved * cold.seconds_per_block;
      if (arrival > time) {
        time = arrival;
        if (time + rest_s[l] >= limit_s) return time + rest_s[l];
      }
    }
    time += cold.compute_s[l];
    freed_at[l] = time - (room + moved - load) * cold.seconds_per_block;
  }
  return time + cold.after_s;
}

/// The general pass. Positions on the link are seconds of link work: blocks / rate, plus a latency at the start of each
/// layer's transfer.
template <class Sink>
struct DeadlinePool::Walk {
  const Pipeline& pipeline;
  std::span<const double> loads;
  Sink& sink;

  std::size_t layers = loads.size();
  double seconds_per_block = 1.0 / pipeline.link.blocks_per_s;
  LinkClock clock = pipeline.clock;

  // The room cursor: blocks up to `room_at` may move. They end in layer `room_layer`, which `room_blocks` blocks and
  // `room_link_s` of link work precede.
  std::size_t next_freed = 0; ///< the layer whose end frees the next room
  double room_at = 0;
  std::size_t room_layer = 0;
  double room_blocks = 0;
  double room_link_s = 0;
  double base_s = 0; ///< M: the link reaches position p at base_s + p
  bool waited = false;
  LayerArray end_s{};

  detail::SlotOrder slots{pipeline.weights};
  int streamed = 0; ///< layers of the weights whose transfer has been scheduled

  [[nodiscard]] bool streams_weights(std::size_t layer) const {
    return pipeline.weights.layers.contains(static_cast<int>(layer));
  }
  [[nodiscard]] double load(std::size_t position) const {
    return loads[position < layers ? position : position - layers];
  }
  /// Blocks of KV and weights of a layer.
  [[nodiscard]] double moved_blocks(std::size_t position) const {
    const std::size_t layer = position < layers ? position : position - layers;
    return loads[layer] + (streams_weights(layer) ? pipeline.weights.blocks : 0);
  }
  [[nodiscard]] double work(std::size_t position) const {
    const double blocks = moved_blocks(position);
    return blocks > 0 ? blocks * seconds_per_block + pipeline.link.per_layer_s : 0;
  }
  /// The link position of the block at which the room ends.
  double room_position() {
    while (room_layer < 2 * layers && room_blocks + load(room_layer) <= room_at) {
      room_blocks += load(room_layer);
      room_link_s += work(room_layer);
      ++room_layer;
    }
    const double inside = room_at - room_blocks;
    return room_link_s + (inside > 0 ? pipeline.link.per_layer_s + inside * seconds_per_block : 0);
  }
  /// Lets `blocks` in total move (and the next one, if `more`): takes the room of as many computed layers as needed.
  void take_room(double blocks, std::size_t computed, bool more = false) {
    while ((room_at < blocks || (more && room_at <= blocks)) && next_freed < computed) {
      const double freed_base = end_s[next_freed] - room_position();
      if (freed_base > base_s) {
        base_s = freed_base;
        waited = true;
      }
      room_at += loads[next_freed];
      ++next_freed;
    }
  }

  /// From `position_s` on, the link waits until the next streamed layer has a slot.
  void take_slot(double position_s) {
    const int freed_by = slots.waits_for(streamed++);
    if (freed_by < 0) return;
    const double freed_base = end_s[static_cast<std::size_t>(freed_by)] - position_s;
    if (freed_base <= base_s) return;
    base_s = freed_base;
    waited = true;
  }

  StepCost run(State& state) {
    SLUICE_ASSERT(layers == pipeline.compute_s.size(), "one load per layer");
    const double background = state.background_blocks + pipeline.background_blocks;
    double total = 0;
    double total_kv = 0;
    double ahead_link_s = 0; // link work that the last iteration did for this one
    for (std::size_t l = 0; l < layers; ++l) {
      const double blocks = moved_blocks(l);
      if (blocks <= 0) continue;
      const double inside = state.ahead_blocks - total;
      if (inside >= blocks)
        ahead_link_s += work(l);
      else if (inside > 0)
        ahead_link_s += pipeline.link.per_layer_s + inside * seconds_per_block;
      else if (inside == 0)
        ahead_link_s += std::min(state.latency_paid_s, pipeline.link.per_layer_s);
      total += blocks;
      total_kv += loads[l];
    }
    if (total <= 0) return idle(state, background);

    room_at = pipeline.room_blocks;
    const double urgent_s = detail::urgent(pipeline) * seconds_per_block;
    base_s = urgent_s - ahead_link_s;
    double stall_s = 0;
    double time = clock.after(0, pipeline.before_s);
    double moved = 0;
    double position_s = 0;
    for (std::size_t l = 0; l < layers; ++l) {
      double start = l == 0 ? std::max(time, detail::first_layer_s(pipeline)) : time;
      StallCause cause = start > time ? StallCause::link : StallCause::none;
      if (moved_blocks(l) > 0) {
        if constexpr (Sink::enabled)
          if (loads[l] > 0) take_room(moved, l, true);
        double begins_s = std::max(0.0, base_s + position_s);
        position_s += work(l);
        if (loads[l] > 0) {
          moved += loads[l];
          take_room(moved, l);
        }
        if (streams_weights(l)) {
          const double weights_s = pipeline.weights.blocks * seconds_per_block;
          take_slot(loads[l] > 0 ? position_s - weights_s : position_s - work(l));
          if (loads[l] <= 0) begins_s = std::max(0.0, base_s + position_s - work(l));
        }
        const double arrival = base_s + position_s;
        detail::tell_link(sink, clock, begins_s, arrival);
        if (arrival > start) {
          start = arrival;
          cause = waited ? StallCause::room : StallCause::link;
        }
        if constexpr (Sink::enabled)
          if (arrival > 0) sink.transfer(-1, static_cast<int>(l), clock.seconds(begins_s), clock.seconds(arrival));
      }
      const double waited_s = clock.seconds(start) - clock.seconds(time);
      stall_s += waited_s;
      end_s[l] = clock.after(start, pipeline.compute_s[l]);
      if constexpr (Sink::enabled)
        sink.layer(static_cast<int>(l), clock.seconds(start), clock.seconds(end_s[l]), waited_s, cause);
      time = end_s[l];
    }
    time = clock.after(time, pipeline.after_s);
    const double ahead_s = look_ahead(state, total_kv, position_s, time);
    const double busy_s = urgent_s + position_s - ahead_link_s + ahead_s;
    detail::tell_link(sink, clock, 0,
                      std::min(time, background > 0 ? busy_s + background * seconds_per_block : urgent_s));
    state.background_blocks = detail::background_left(background, time - busy_s, pipeline.link);
    return {clock.seconds(time), stall_s, busy_s};
  }

 private:
  StepCost idle(State& state, double background) {
    double time = clock.after(0, pipeline.before_s);
    double waited_s = 0; // for requests that are swapped in whole
    if (const double first_s = detail::first_layer_s(pipeline); first_s > time) {
      waited_s = clock.seconds(first_s) - clock.seconds(time);
      time = first_s;
    }
    for (std::size_t l = 0; l < layers; ++l) {
      const double end = clock.after(time, pipeline.compute_s[l]);
      if constexpr (Sink::enabled) {
        const double stall_s = l == 0 ? waited_s : 0;
        sink.layer(static_cast<int>(l), clock.seconds(time), clock.seconds(end), stall_s,
                   stall_s > 0 ? StallCause::link : StallCause::none);
      }
      time = end;
    }
    time = clock.after(time, pipeline.after_s);
    const double urgent_s = detail::urgent(pipeline) * seconds_per_block;
    detail::tell_link(sink, clock, 0, std::min(time, urgent_s + background * seconds_per_block));
    state = State{0, 0, detail::background_left(background, time - urgent_s, pipeline.link)};
    return {clock.seconds(time), waited_s, urgent_s};
  }

  /// Prefetches for the next token until `now`, when all room of this token is free again; returns that link work.
  /// `total_kv`: blocks of KV that this token moved.
  double look_ahead(State& state, double total_kv, double position_s, double now) {
    const double begin_s = position_s;
    state.ahead_blocks = state.latency_paid_s = 0;
    double moved_kv = 0;
    for (std::size_t l = 0; l < layers; ++l) {
      bool begun = false; // the layer's latency is paid
      /// Moves `blocks`, or as many of them as there is time for.
      const auto move = [&](double blocks) {
        const double spent_s = now - (base_s + position_s);
        if (spent_s <= 0) return false;
        detail::tell_link(
            sink, clock, base_s + position_s,
            std::min(now, base_s + position_s + (begun ? 0 : pipeline.link.per_layer_s) + blocks * seconds_per_block));
        if (!begun) {
          if (spent_s <= pipeline.link.per_layer_s && pipeline.link.per_layer_s > 0) {
            state.latency_paid_s = spent_s;
            position_s += spent_s;
            return false;
          }
          begun = true;
          position_s += pipeline.link.per_layer_s;
        }
        const double possible = (now - (base_s + position_s)) / seconds_per_block;
        if (possible < blocks) {
          state.ahead_blocks += std::max(0.0, possible);
          position_s = now - base_s;
          return false;
        }
        state.ahead_blocks += blocks;
        position_s += blocks * seconds_per_block;
        return true;
      };
      double part = std::min(loads[l], pipeline.room_blocks - moved_kv);
      const bool whole = part >= loads[l];
      while (part > 0) { // in steps of the room that layers return: each step may move the base
        take_room(total_kv + moved_kv, layers, true);
        const double piece = next_freed < layers ? std::min(part, room_at - (total_kv + moved_kv)) : part;
        if (!move(piece)) return position_s - begin_s;
        moved_kv += piece;
        part -= piece;
      }
      if (!whole) break;
      if (!streams_weights(l)) continue;
      if (streamed == slots.released(slots.count())) break; // no slot is free
      take_slot(position_s);
      if (!move(pipeline.weights.blocks)) break;
    }
    return position_s - begin_s;
  }
};

template <class Sink>
StepCost DeadlinePool::walk(const Pipeline& pipeline, std::span<const double> loads, State& state, Sink& sink) {
  return Walk<Sink>{pipeline, loads, sink}.run(state);
}

} // namespace sluice
