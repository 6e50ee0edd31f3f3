// SPDX-License-Identifier: Apache-2.0
// evaluate_link: one iteration with both directions of the link under any rule, and with the computation's use of it.
#pragma once

#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace sluice {

/// The lane to the host, if each direction has one: `out_s` seconds of work at its full rate, from the start of the
/// iteration. `mixed_s` of that work moves while the other lane is active and each loses `loss` of its rate. That part
/// comes first, because the prefetches are treated as one run from the start of the iteration. Exact if they do not
/// pause; otherwise the outbound lane is slowed at least as much as in reality. (Rejected: modelling the pauses, which
/// would need a second walk to find their lengths.)
struct OutwardLane {
  double out_s = 0;
  double mixed_s = 0;
  double loss = 0;

  /// When `work_s` of the work is done, for at most `out_s`.
  [[nodiscard]] constexpr double done_at(double work_s) const {
    return work_s + loss / (1 - loss) * std::min(work_s, mixed_s);
  }
  /// The work done `seconds` after the start.
  [[nodiscard]] constexpr double done_by(double seconds) const {
    return std::min(out_s, seconds - loss * std::min(seconds, mixed_s / (1 - loss)));
  }
};

namespace detail {

/// Link time of everything that may be prefetched in an iteration: its own blocks; for each stream the next token's
/// first layer, or as many of its blocks as the rule has room for; and streamed weights for all slots.
template <class Rule>
double most_prefetched_s(const Pipeline& pipeline) {
  LayerArray loads;
  layer_loads(pipeline, loads);
  double blocks = 0;
  int transfers = 0;
  for (int l = 0; l < pipeline.layers(); ++l) {
    blocks += loads[static_cast<std::size_t>(l)];
    transfers += loads[static_cast<std::size_t>(l)] > 0 || pipeline.weights.layers.contains(l);
  }
  LayerSet first;
  if constexpr (Rule::needs_room) {
    double ahead = 0;
    for (int l = 0; l < pipeline.layers() && ahead < pipeline.room_blocks; ++l) {
      if (loads[static_cast<std::size_t>(l)] <= 0) continue;
      ahead += loads[static_cast<std::size_t>(l)];
      first.insert(l);
    }
    blocks += std::min(ahead, pipeline.room_blocks);
  } else {
    for (const LayerStream& stream : pipeline.streams) {
      if (stream.layers.empty()) continue;
      blocks += stream.blocks;
      first.insert(stream.layers.lowest());
    }
  }
  if (const WeightStream& weights = pipeline.weights; !weights.empty()) {
    const SlotOrder slots{weights};
    blocks += weights.blocks * slots.released(slots.count());
    for (int i = 0; i < slots.released(0); ++i) first.insert(slots.layer(i));
  }
  return pipeline.link.seconds(blocks, transfers + first.count());
}

/// Blocks that must be written by the end of the iteration.
inline double due_out_blocks(const Pipeline& pipeline) {
  return pipeline.written_blocks + written_back_blocks(pipeline.streams);
}

/// One lane for both directions: writes and fetches divide it evenly, less the mix loss, while both last. To each of
/// them this is a lane of its own that meanwhile loses more than half of its rate. Evictions move in the background of
/// both.
template <class Rule, class Sink>
StepCost evaluate_one_lane(const Pipeline& pipeline, typename Rule::State& state, Sink& sink) {
  const BlockLink& link = pipeline.link;
  OutwardLane out{due_out_blocks(pipeline) / link.blocks_per_s, 0, (1 + link.mix_loss) / 2};
  const double background = state.background_blocks + pipeline.background_blocks;
  if (out.out_s <= 0) {
    StepCost cost = Rule::evaluate(pipeline, state, sink);
    const double worked_s = cost.link_s + (background - state.background_blocks) / link.blocks_per_s;
    cost.link_s = std::min(cost.step_s, pipeline.clock.seconds(worked_s));
    return cost;
  }
  Pipeline inward = pipeline;
  inward.room_blocks -= leaving_blocks(pipeline.streams);
  out.mixed_s = std::min(out.out_s, urgent(pipeline) / link.blocks_per_s + most_prefetched_s<Rule>(inward));
  inward.clock.slow_until_s = out.done_at(out.out_s);
  inward.clock.loss = out.loss;
  // While writes have the lane to themselves, the clock counts its remaining rate twice: evictions do not.
  inward.background_blocks += (1 - out.loss) * (out.out_s - out.mixed_s) * link.blocks_per_s;
  StepCost cost = Rule::evaluate(inward, state, sink);
  state.background_blocks = std::min(state.background_blocks, background);
  // Inbound traffic as one run from the start, outbound traffic at the same time, evictions in the background of both.
  const double out_active_s = OutwardLane{out.out_s, std::min(out.mixed_s, cost.link_s), out.loss}.done_at(out.out_s);
  cost.link_s = std::max(inward.clock.seconds(cost.link_s), out_active_s) +
                (background - state.background_blocks) / link.blocks_per_s;
  if (const double late_s = out.out_s - out.done_by(cost.step_s); late_s > 0) {
    cost.step_s += late_s;
    cost.stall_s += late_s;
  }
  cost.link_s = std::min(cost.step_s, cost.link_s);
  return cost;
}

/// The iteration as if the computation left the link alone. `link_s`: time in which anything crosses the link.
template <class Rule, class Sink>
StepCost evaluate_lanes(const Pipeline& pipeline, typename Rule::State& state, Sink& sink) {
  const BlockLink& link = pipeline.link;
  if (!link.each_way()) return evaluate_one_lane<Rule>(pipeline, state, sink);
  const double background = state.background_blocks + pipeline.background_blocks;
  const double due_s = (pipeline.urgent_out_blocks + due_out_blocks(pipeline)) / link.out_blocks_per_s;
  OutwardLane out{due_s + background / link.out_blocks_per_s, 0, link.mix_loss};
  Pipeline inward = pipeline;
  inward.urgent_out_blocks = inward.background_blocks = 0;
  inward.room_blocks -= leaving_blocks(pipeline.streams);
  state.background_blocks = 0;
  if (out.out_s > 0) {
    const double prefetched_s = most_prefetched_s<Rule>(inward);
    // Evictions that make room leave while the urgent blocks arrive; the prefetches wait for both.
    const double in_first_s = pipeline.urgent_blocks / link.blocks_per_s;
    const double out_first_s = pipeline.urgent_out_blocks / link.out_blocks_per_s;
    out.mixed_s = out_first_s <= in_first_s ? std::min(out.out_s, in_first_s + prefetched_s)
                                            : in_first_s + std::min(out.out_s - out_first_s, prefetched_s);
    if (link.mix_loss > 0) {
      inward.clock.slow_until_s = out.done_at(out.out_s);
      inward.clock.loss = link.mix_loss;
    }
    const OutwardLane first{out_first_s, std::min(in_first_s, out_first_s), link.mix_loss};
    inward.urgent_blocks =
        std::max(pipeline.urgent_blocks, inward.clock.link_time(first.done_at(out_first_s)) * link.blocks_per_s);
  }
  StepCost cost = Rule::evaluate(inward, state, sink);
  // Inbound traffic as one run from the start, and outbound traffic at the same time.
  const double out_active_s = OutwardLane{out.out_s, std::min(out.mixed_s, cost.link_s), out.loss}.done_at(out.out_s);
  cost.link_s = std::max(inward.clock.seconds(cost.link_s), out_active_s);
  if (const double late_s = out.done_at(due_s) - cost.step_s; late_s > 0) {
    cost.step_s += late_s;
    cost.stall_s += late_s;
  }
  const double left_s = out.out_s - out.done_by(cost.step_s);
  state.background_blocks = std::clamp(left_s * link.out_blocks_per_s, 0.0, background);
  cost.link_s = std::min(cost.step_s, cost.link_s);
  return cost;
}

/// Passes a timeline on to a sink with all times stretched.
struct Stretched {
  static constexpr bool enabled = true;
  AnyTimeline& sink;
  double factor;
  void layer(int layer, double start_s, double end_s, double stall_s, StallCause cause) {
    sink.layer(layer, start_s * factor, end_s * factor, stall_s * factor, cause);
  }
  void transfer(int stream, int layer, double start_s, double end_s) {
    sink.transfer(stream, layer, start_s * factor, end_s * factor);
  }
  void link(double begin_s, double end_s) { sink.link(begin_s * factor, end_s * factor); }
};

/// Passes a timeline on to a sink in which the device waits for the host's attention before each layer.
struct HostWaits {
  static constexpr bool enabled = true;
  AnyTimeline& sink;
  double wait_s;
  void layer(int layer, double start_s, double end_s, double stall_s, StallCause cause) {
    sink.layer(layer, start_s + wait_s, end_s, stall_s + wait_s, stall_s > wait_s ? cause : StallCause::host);
  }
  void transfer(int stream, int layer, double start_s, double end_s) { sink.transfer(stream, layer, start_s, end_s); }
  void link(double begin_s, double end_s) { sink.link(begin_s, end_s); }
};

/// An iteration's waits for the host's attention, which are part of its layers' time.
inline StepCost with_host_waits(StepCost cost, const Pipeline& pipeline) {
  cost.stall_s += pipeline.host_wait_s * pipeline.layers();
  return cost;
}

/// `evaluate_link` for a sink that wants the timeline, without waits for the host.
template <class Rule>
StepCost evaluate_without_host(const Pipeline& pipeline, typename Rule::State& state, AnyTimeline& sink) {
  if (pipeline.on_link <= 0) return evaluate_lanes<Rule>(pipeline, state, sink);
  NoTimeline nothing;
  typename Rule::State before = state;
  const StepCost alone = evaluate_lanes<Rule>(pipeline, before, nothing);
  const StepCost cost = contended(alone, pipeline.on_link);
  Stretched stretched{sink, cost.step_s / alone.step_s};
  AnyTimeline told{stretched};
  evaluate_lanes<Rule>(pipeline, state, told);
  return cost;
}

/// `evaluate_link` for a sink that wants the timeline.
template <class Rule>
StepCost evaluate_told(const Pipeline& pipeline, typename Rule::State& state, AnyTimeline& sink) {
  if (pipeline.host_wait_s <= 0) return evaluate_without_host<Rule>(pipeline, state, sink);
  HostWaits waits{sink, pipeline.host_wait_s};
  AnyTimeline told{waits};
  return with_host_waits(evaluate_without_host<Rule>(pipeline, state, told), pipeline);
}

} // namespace detail

/// One iteration under `Rule`, outbound traffic included: what must be written by its end, and background evictions.
/// Every caller that asks how long an iteration takes calls this; planners, which move nothing out, may call the rule.
///
/// On one lane, writes share it with the prefetches, and evictions use what both leave. With a lane each way, writes
/// and evictions begin with the iteration, together with the prefetches, and slow them by the mix loss while they last.
/// Traffic that must be out by the end of the iteration goes first, and the iteration waits for it. Nothing is written
/// before it is computed, but in the long run the last iteration's final writes happen during the next one, so a link's
/// work per iteration is the same. (Rejected: each layer's write at the layer's end; no rule that sees only inbound
/// traffic could follow that.)
///
/// If the computation also uses the link, the sink receives an iteration that is slower throughout: only the sum of the
/// slowdown is known.
template <class Rule>
StepCost evaluate_link(const Pipeline& pipeline, typename Rule::State& state) {
  NoTimeline nothing;
  const StepCost alone = detail::evaluate_lanes<Rule>(pipeline, state, nothing);
  const StepCost cost = pipeline.on_link > 0 ? contended(alone, pipeline.on_link) : alone;
  return pipeline.host_wait_s > 0 ? detail::with_host_waits(cost, pipeline) : cost;
}

template <class Rule, class Sink>
StepCost evaluate_link(const Pipeline& pipeline, typename Rule::State& state, [[maybe_unused]] Sink&& sink) {
  if constexpr (std::remove_reference_t<Sink>::enabled) {
    AnyTimeline told{sink};
    return detail::evaluate_told<Rule>(pipeline, state, told);
  } else {
    return evaluate_link<Rule>(pipeline, state);
  }
}

} // namespace sluice

#ifdef SLUICE_COMPILED
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

// The library has the published rules; a user's own rule is compiled where it is used.
namespace sluice {
extern template StepCost evaluate_link<DeadlinePool>(const Pipeline&, DeadlinePool::State&);
extern template StepCost evaluate_link<EarliestDeadlineFirst>(const Pipeline&, EarliestDeadlineFirst::State&);
extern template StepCost evaluate_link<FairShare>(const Pipeline&, FairShare::State&);
extern template StepCost evaluate_link<NextLayer>(const Pipeline&, NextLayer::State&);
namespace detail {
extern template StepCost evaluate_told<DeadlinePool>(const Pipeline&, DeadlinePool::State&, AnyTimeline&);
extern template StepCost evaluate_told<EarliestDeadlineFirst>(const Pipeline&, EarliestDeadlineFirst::State&,
                                                              AnyTimeline&);
extern template StepCost evaluate_told<FairShare>(const Pipeline&, FairShare::State&, AnyTimeline&);
extern template StepCost evaluate_told<NextLayer>(const Pipeline&, NextLayer::State&, AnyTimeline&);
} // namespace detail
} // namespace sluice
#endif
