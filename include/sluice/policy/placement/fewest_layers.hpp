// SPDX-License-Identifier: Apache-2.0
// FewestLayers: offloads the fewest evenly spaced layers that let the batch fit (Dynamic Heuristic, FlexGen, FlexGen+).
#pragma once

#include "sluice/core/numbers.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/state/plan/space.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// The request lengths for which the batch must fit.
enum class Horizon : std::uint8_t {
  now,         ///< the present ones; planned in every step (Dynamic Heuristic)
  batch_worst, ///< the final lengths of this batch's requests, which an oracle knows (FlexGen+)
  ever_worst,  ///< the worst possible batch: one plan for the whole run (FlexGen)
};

/// The fewest evenly spaced layers, the same for every request, with which the batch fits at its horizon.
template <Horizon H = Horizon::now>
struct BasicFewestLayers {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  static constexpr bool unequal_layers = true;
  static constexpr bool knows_lengths = H != Horizon::now; ///< marks an oracle's results (`foresees`)
  template <class Transfer>
  struct State {
    UniformTrial<Transfer> trial;
    LayerSet chosen;
    bool decided = false; ///< `ever_worst` decides once
  };

  /// `ever_worst`: token blocks of the worst batch. 0: the batch limit times the longest accepted context.
  TokenBlocks worst_batch{0};
  static constexpr auto numbers =
      Numbers{"FewestLayers", Number{"worst_batch", &BasicFewestLayers::worst_batch, 0, 1e9,
                                     "token blocks of the worst batch (FlexGen); 0: of the limits"}};

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers), {}}; }
  [[nodiscard]] constexpr Holding least(int layers, int on_host) const
      requires(H != Horizon::ever_worst) // whose one set of layers is no answer to a host that is small
  {
    return {all_tokens, evenly_spaced_layers(layers, on_host), {}};
  }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.effort = 0; // counted below, where it searches
    const auto blocks_of = [&task](const Claim& claim) {
      if constexpr (H == Horizon::batch_worst) {
        const RequestRow& row = task.view.row(claim.slot);
        return blocks_for(row.spec.prompt + row.output(LengthPermit<BasicFewestLayers>{}),
                          task.view.limits.block_tokens);
      } else {
        return task.blocks(claim);
      }
    };
    LayerSet set;
    double in_flight = 0;
    const auto fits = [&](std::size_t count) {
      if constexpr (H == Horizon::ever_worst) {
        if (!state.decided) decide_for_good(task, state);
        set = state.chosen;
        const double held = state.trial.in_flight_if_fits(task, count, set, blocks_of);
        if (held >= 0) in_flight = held;
        return held >= 0;
      } else {
        // Offloading fewer layers never takes less device memory, so bisection finds the first count that fits. But the
        // room in flight may jump if even spacing makes two layers adjacent, so the counts just below are tried too.
        TokenBlocks all{0};
        for (const Claim& claim : task.claims.first(count)) all += blocks_of(claim);
        for (int layers = task.fewest_away(task.view.geometry.moved(all)); layers <= task.among().count(); ++layers) {
          set = evenly_spaced_layers(task.among(), layers);
          in_flight = state.trial.in_flight_if_fits(task, count, set, blocks_of);
          if (in_flight >= 0) return true;
        }
        return false;
      }
    };
    if (task.required > 0 && !fits(task.required)) return Verdict::infeasible(Binding::device_memory);
    const std::size_t joined = longest_prefix(task.required, task.claims.size(), fits);
    fits(task.required + joined);
    set_uniform(plan, set, in_flight);
    if constexpr (H != Horizon::ever_worst) hold_alike(task, task.required + joined, Holding{plan.unseen}, plan);
    plan.effort = 1;
    plan.binding = set.empty() ? Binding::none : Binding::device_memory;
    return {true, joined, plan.binding};
  }

 private:
  template <class Task, class S>
  void decide_for_good(const Task& task, S& state) const {
    const View& view = task.view;
    const TokenBlocks worst = worst_batch.count() > 0
                                  ? worst_batch
                                  : blocks_for(view.limits.max_context, view.limits.block_tokens) * view.limits.batch;
    // Windows and states are each request's own: for them the worst batch shares its blocks equally.
    const std::int64_t parts = view.geometry.alike() ? 1 : view.limits.batch;
    const TokenBlocks each{(worst.count() + parts - 1) / parts};
    const LayerSet among = task.among();
    int layers = 0;
    for (; layers < among.count(); ++layers) {
      const LayerSet set = evenly_spaced_layers(among, layers);
      const LayerStream stream{set, static_cast<double>(view.geometry.moved(worst).count())};
      const double held = detail::in_flight_blocks<typename Task::transfer_type>(stream, task.layers());
      const auto resident = static_cast<double>(task.footprint_of({all_tokens, set, {}}, each).device.count() * parts);
      if (resident + held <= static_cast<double>(task.device_budget.count())) break;
    }
    state.chosen = evenly_spaced_layers(among, layers);
    state.decided = true;
  }
};

using FewestLayers = BasicFewestLayers<>;

static_assert(Placement<FewestLayers> && Placement<BasicFewestLayers<Horizon::ever_worst>>);

} // namespace sluice
