// SPDX-License-Identifier: Apache-2.0
// SwappedLayers: offloads the KV of as few layers as possible, as long as computation hides the transfers.
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/placement/steady_trial.hpp"
#include "sluice/state/plan/space.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

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
/// remaining request stalls for as long as its transfers take. A plan is made to last `growth` tokens of every request,
/// or as long as possible. Fewer claims offload fewer layers of less KV, and compute for nearly as long.
template <SwappedOut Out = SwappedOut::whole>
struct BasicSwappedLayers {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  static constexpr bool unequal_layers = true;
  template <class Transfer>
  struct State {
    SteadyTrial<Transfer> trial;
  };

  /// One block per request: otherwise the plan would change with almost every token of a large batch, and prefetched
  /// blocks would be discarded each time.
  std::int64_t growth = 16;
  bool only_hidden = true; ///< false: offload as many layers as needed, even if their transfers stall
  static constexpr auto numbers =
      Numbers{"SwappedLayers", Number{"growth", &BasicSwappedLayers::growth, 0, 1e6, "tokens that a plan lasts"},
              Number{"only_hidden", &BasicSwappedLayers::only_hidden, 0, 1, "0: transfers may stall"}};

  [[nodiscard]] constexpr Holding least(int layers) const { return held(LayerSet::all(layers)); }
  [[nodiscard]] constexpr Holding least(int layers, int on_host) const { return held(nested_layers(layers, on_host)); }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.effort = 0; // counted below, where it searches
    const auto plan_for = [&](std::size_t count) {
      return make(task, state, count, growth, plan) || (count == task.required && make(task, state, count, 0, plan));
    };
    return join_longest_prefix(task, plan, plan_for);
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
    const Holding holding = held(nested_layers(task.among(), chosen.out));
    const SteadyUse now = state.trial.use(task, count, holding, 0);
    plan.in_flight = state.trial.in_flight(task, now.stream);
    plan.binding = chosen.out == 0 ? Binding::none : chosen.step.waits() ? Binding::link : Binding::device_memory;
    plan.predicted_step = plan.lower_bound = Seconds{state.trial.step(task, count, now).step_s};
    hold_alike(task, count, holding, plan);
    return true;
  }

  /// The fewest layers with which the claims fit and no layer stalls. If no SLO is enforced, the number with the
  /// shortest decode: more offloaded layers mean more to move, but also more room to prefetch.
  template <class Task, class S>
  Choice choose(const Task& task, S& state, std::size_t count, std::int64_t steps, Plan& plan) const {
    const LayerBlocks each{static_cast<std::int64_t>(state.trial.use(task, count, {}, steps).stream.blocks)};
    const bool hidden = only_hidden && task.enforce_slo;
    Choice best;
    plan.binding = Binding::device_memory;
    for (int out = task.fewest_away(each); out <= task.among().count(); ++out) {
      const Holding holding = held(nested_layers(task.among(), out));
      const SteadyUse use = state.trial.use(task, count, holding, steps);
      if (use.room.device + state.trial.in_flight(task, use.stream) > task.device_budget) continue;
      if (use.room.host > task.host_budget) {
        if (best.out < 0) plan.binding = Binding::host_memory;
        break;
      }
      const StepCost step = state.trial.step(task, count, use);
      ++plan.effort;
      // In the long run, too: a pool that started full takes a while to run empty.
      const double link_s = state.trial.link_s(task, use.stream);
      if (!step.waits() && link_s <= step.step_s) return {out, step};
      plan.binding = Binding::link;
      if (!hidden && (best.out < 0 || step.step_s < best.step.step_s)) best = {out, step};
      // If the transfers alone take longer than that, more layers cannot help.
      if (link_s > (hidden ? step.step_s - step.stall_s : best.step.step_s)) break;
    }
    return best;
  }
};

using SwappedLayers = BasicSwappedLayers<>;

static_assert(Placement<SwappedLayers> && Placement<BasicSwappedLayers<SwappedOut::fresh>>);

} // namespace sluice
