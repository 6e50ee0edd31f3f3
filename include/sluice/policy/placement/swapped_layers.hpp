// SPDX-License-Identifier: Apache-2.0
// SwappedLayers: offloads the KV of as few layers as possible, as long as computation hides the transfers.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/placement/placement.hpp"
#include "sluice/policy/transfer/steady_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// `count` of `layers` layers, nearly evenly spaced; the smaller set is always a subset of the larger one, so that one
/// more layer moves only that layer. The last layer comes first, then by halves (van der Corput's sequence); for powers
/// of two the sets equal `evenly_spaced_layers`. Evenly spaced layers would move nearly all of the batch's KV whenever
/// the count changes.
[[nodiscard]] constexpr LayerSet nested_layers(int layers, int count) {
  LayerSet set;
  for (std::uint32_t i = 0; set.count() < count; ++i) {
    std::uint64_t halves = 0; // of 2^32: the bits of i reversed
    for (std::uint32_t bit = 0; bit < 32; ++bit) halves |= std::uint64_t{i >> bit & 1u} << (31 - bit);
    set.insert(layers - 1 - static_cast<int>(halves * static_cast<std::uint64_t>(layers) >> 32));
  }
  return set;
}

/// How much of a fetched layer goes back to the host.
enum class SwappedOut : std::uint8_t {
  whole, ///< all of it in every iteration: the layer is swapped out as it was swapped in (Pie)
  fresh, ///< only new tokens: the host's copy of the others is unchanged
};

/// As few layers as possible live on the host between their turns, the same layers for every request. Each is swapped
/// in ahead of its turn, in layer order as the transfer rule has room, and swapped out after it.
///
/// The host's share grows only while that costs no time: if the steady decode, evaluated with both link directions,
/// would stall, the plan is infeasible. Then no optional claim joins, and Relief preempts a required claim. A single
/// remaining request stalls for as long as its transfers take.
///
/// A plan is made to last `growth` tokens of every request; if none can last as long, it lasts as long as possible.
/// Fewer claims offload fewer layers of less KV and compute for nearly as long, so their transfers stay hidden.
template <SwappedOut Out = SwappedOut::whole>
struct BasicSwappedLayers {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State : SteadyScratch<Transfer> {};

  /// One block per request: otherwise the plan would change with almost every token of a large batch, and prefetched
  /// blocks would be discarded each time.
  std::int64_t growth = 16;
  bool only_hidden = true; ///< false: offload as many layers as needed, even if their transfers stall
  static constexpr auto numbers =
      Numbers{"SwappedLayers", Number{"growth", &BasicSwappedLayers::growth, 0, 1e6, "tokens that a plan lasts"},
              Number{"only_hidden", &BasicSwappedLayers::only_hidden, 0, 1, "0: transfers may stall"}};

  [[nodiscard]] constexpr Holding least(int layers) const { return held(LayerSet::all(layers)); }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.effort = 0; // counted below, where it searches
    const auto plan_for = [&](std::size_t count) {
      return make(task, state, count, growth, plan) || (count == task.required && make(task, state, count, 0, plan));
    };
    plan.covers_unseen = false;
    if (task.required > 0 && !plan_for(task.required)) return Verdict::infeasible(plan.binding);
    const std::size_t joined = longest_prefix(task.required, task.claims.size(), plan_for);
    plan_for(task.required + joined);
    return {true, joined, plan.binding};
  }

 private:
  [[nodiscard]] static constexpr Holding held(LayerSet set) {
    Holding holding;
    holding.host = set;
    holding.written_back = Out == SwappedOut::whole && !set.empty();
    return holding;
  }

  /// How many layers are offloaded, and how long a decode then takes.
  struct Choice {
    int out = -1; ///< -1: no number works
    StepCost step;
  };

  /// Makes the plan for the first `count` claims, to last `steps` tokens. False, with what binds, if there is none.
  template <class Task, class S>
  bool make(const Task& task, S& state, std::size_t count, std::int64_t steps, Plan& plan) const {
    const Choice chosen = choose(task, state, count, steps, plan);
    if (chosen.out < 0) return false;
    const Holding holding = held(nested_layers(task.layers(), chosen.out));
    const LayerStream now = stream_of(task, count, holding, 0);
    plan.in_flight = in_flight(task, now);
    plan.binding = chosen.out == 0 ? Binding::none : waits(chosen.step) ? Binding::link : Binding::device_memory;
    const Footprint room = footprint(task, count, holding, 0);
    const StepCost step = step_of(task, state, count, now, task.device_budget - room.device);
    plan.predicted_step = plan.lower_bound = Seconds{step.step_s};
    plan.requests.clear();
    for (const Claim& claim : task.claims.first(count)) plan.requests.push_back({claim.slot, holding});
    return true;
  }

  /// The fewest layers with which the claims fit and no layer stalls. If no SLO is enforced, the number with the
  /// shortest decode: more offloaded layers mean more to move, but also more room to prefetch.
  template <class Task, class S>
  Choice choose(const Task& task, S& state, std::size_t count, std::int64_t steps, Plan& plan) const {
    const auto blocks = static_cast<std::int64_t>(stream_of(task, count, {}, steps).blocks);
    const std::int64_t resident = blocks > 0 ? task.device_budget.count() / blocks : task.layers();
    const bool hidden = only_hidden && task.enforce_slo;
    Choice best;
    plan.binding = Binding::device_memory;
    for (int out = static_cast<int>(std::max<std::int64_t>(0, task.layers() - resident)); out <= task.layers(); ++out) {
      const Holding holding = held(nested_layers(task.layers(), out));
      const LayerStream stream = stream_of(task, count, holding, steps);
      const Footprint room = footprint(task, count, holding, steps);
      if (room.device + in_flight(task, stream) > task.device_budget) continue;
      if (room.host > task.host_budget) {
        if (best.out < 0) plan.binding = Binding::host_memory;
        break;
      }
      const StepCost step = step_of(task, state, count, stream, task.device_budget - room.device);
      ++plan.effort;
      // In the long run, too: a pool that started full takes a while to run empty.
      const double link_s = link_time(task, stream);
      if (!waits(step) && link_s <= step.step_s) return {out, step};
      plan.binding = Binding::link;
      if (!hidden && (best.out < 0 || step.step_s < best.step.step_s)) best = {out, step};
      // If the transfers alone take longer than that, more layers cannot help.
      if (link_s > (hidden ? step.step_s - step.stall_s : best.step.step_s)) break;
    }
    return best;
  }

  /// How long the link is busy with an iteration's transfers, whatever their schedule.
  template <class Task>
  [[nodiscard]] static double link_time(const Task& task, const LayerStream& stream) {
    const BlockLink link = task.block_link();
    const double in_s =
        (stream.blocks * stream.layers.count() + task.weights.blocks * task.weights.layers.count()) / link.blocks_per_s;
    const double back_s =
        stream.blocks * stream.written_back.count() / (link.each_way() ? link.out_blocks_per_s : link.blocks_per_s);
    const double lost_s = link.mix_loss / (1 - link.mix_loss) * std::min(in_s, back_s); // of each lane
    return link.each_way() ? std::max(in_s, back_s) + lost_s : in_s + back_s + 2 * lost_s;
  }

  [[nodiscard]] static bool waits(const StepCost& step) { return step.stall_s > 1e-9 * step.step_s; }

  template <class Task>
  [[nodiscard]] static Footprint footprint(const Task& task, std::size_t count, const Holding& holding,
                                           std::int64_t steps) {
    Footprint room;
    for (const Claim& claim : task.claims.first(count))
      room = room + task.footprint_of(holding, task.blocks(claim, steps));
    return room;
  }

  /// One stream for all requests: they move the same layers.
  template <class Task>
  [[nodiscard]] static LayerStream stream_of(const Task& task, std::size_t count, const Holding& holding,
                                             std::int64_t steps) {
    std::int64_t blocks = 0;
    for (const Claim& claim : task.claims.first(count)) blocks += task.blocks(claim, steps).count();
    return {holding.host, static_cast<double>(blocks), holding.written_back ? holding.host : LayerSet{}};
  }

  template <class Task>
  [[nodiscard]] static LayerBlocks in_flight(const Task& task, const LayerStream& stream) {
    if (stream.layers.empty()) return LayerBlocks{0};
    LayerArray loads{};
    stream.layers.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] = stream.blocks; });
    return LayerBlocks{static_cast<std::int64_t>(std::ceil(detail::in_flight_blocks<typename Task::transfer_type>(
        {loads.data(), static_cast<std::size_t>(task.layers())}, {&stream, 1})))};
  }

  /// The time of a decode of all claims once it repeats.
  template <class Task, class S>
  [[nodiscard]] static StepCost step_of(const Task& task, S& state, std::size_t count, const LayerStream& stream,
                                        LayerBlocks room) {
    return steady_step<typename Task::transfer_type>({task.cost.step(task.steady_decode(count)), task.layers(),
                                                      task.block_link(), stream, task.weights,
                                                      static_cast<double>(room.count())},
                                                     state);
  }
};

using SwappedLayers = BasicSwappedLayers<>;

static_assert(Placement<SwappedLayers> && Placement<BasicSwappedLayers<SwappedOut::fresh>>);

} // namespace sluice
