// SPDX-License-Identifier: Apache-2.0
// Chaos: policies that decide senselessly in every step, because no guarantee may depend on sensible policies.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/relief/relief.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/retention.hpp"
#include "sluice/policy/weights/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::testing {

/// A new placement for every request in every step: layers on the host, layers rebuilt, some of them from hidden
/// states, for all tokens or the oldest, and sometimes all KV written back, or hidden states kept on the device.
struct ChaosPlacement {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {
    Random random{1};
    PlanTrial<Transfer> trial;
  };
  std::uint64_t rebuild_one_in = 3; ///< one in so many placements rebuilds something; 0: none
  std::uint64_t host_one_in = 0;    ///< the host attends one in so many decodes; 0: none
  std::uint64_t states_one_in = 0;  ///< one in so many keeps hidden states on the device if it can; 0: none

  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers)}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    const std::size_t most = task.claims.size();
    if (task.required > 1 && task.enforce_slo && state.random.below(8) == 0) { // for no reason
      plan.binding = Binding::slo;
      return Verdict::infeasible(plan.binding);
    }
    for (int tries = 0; tries < 12; ++tries) {
      const std::size_t joined = state.random.below(most - task.required + 1);
      if (task.required + joined == 0) continue;
      if (set(task, state, plan, task.required + joined, tries >= 10)) return {true, joined, plan.binding};
    }
    return Verdict::infeasible(plan.binding);
  }

 private:
  template <class Task, class S>
  bool set(const Task& task, S& state, Plan& plan, std::size_t count, bool least_of_all) const {
    Random& random = state.random;
    plan.requests.clear();
    LayerBlocks rebuilt{0};
    for (const Claim& claim : task.claims.first(count)) {
      Holding holding = least(task.layers());
      const RequestRow& row = task.view.row(claim.slot);
      const bool decodes = row.pending() <= Tokens{1} && row.holding.nowhere.empty();
      // States exist while their tokens are computed, and are then kept or lost.
      const bool starts = row.computed.count() == 0, had = row.holding.states_on_device;
      const LayerSet states = starts ? LayerSet::all(task.layers()) : row.holding.hidden;
      const bool keeps = states_one_in > 0 && (starts || had) && random.below(states_one_in) == 0;
      if (host_one_in > 0 && decodes && random.below(host_one_in) == 0) {
        holding.attended_on_host = true;
      } else if (least_of_all && had && keeps) {
        holding = row.holding.without_spare();
      } else if (!least_of_all) {
        holding.host = {};
        const bool rebuilding = rebuild_one_in > 0 && random.below(rebuild_one_in) == 0;
        for (int layer = 0; layer < task.layers(); ++layer) {
          const std::uint64_t where = random.below(4);
          const bool kept = keeps && where > 1 && states.contains(layer);
          if (where == 0) holding.host.insert(layer);
          if (!kept && (where != 1 || !rebuilding)) continue;
          holding.nowhere.insert(layer);
          if (kept || (!keeps && random.below(2) == 0)) holding.hidden.insert(layer);
        }
        holding.states_on_device = keeps;
        const std::int64_t blocks = task.blocks(claim).count();
        if (rebuilding || random.below(3) == 0)
          holding.head = Tokens{static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(blocks))) *
                                task.view.limits.block_tokens.count()};
        else if (!keeps && random.below(4) == 0)
          holding.written_back = true;
        if (keeps && had) holding.head = std::min(holding.head, row.holding.head);
        if (!holding.nowhere.empty()) // one layer's blocks while it computes, and the kept blocks meanwhile
          rebuilt += LayerBlocks{2 * holding.head_blocks(task.blocks(claim), task.view.limits.block_tokens).count()};
      }
      plan.requests.push_back({claim.slot, holding});
    }
    if (!state.trial.fits(task, plan)) return false;
    return state.trial.fits(task, plan, plan.in_flight + rebuilt);
  }
};

/// The same, and the host attends every second decode that it can.
struct ChaosHosting : ChaosPlacement {
  constexpr ChaosHosting() { host_one_in = 2; }
};

/// The same, and every second placement that can keeps hidden states on the device.
struct ChaosStates : ChaosPlacement {
  static constexpr bool keeps_states = true;
  constexpr ChaosStates() { states_one_in = 2; }
};

/// Preempts any request, and keeps a random part of its KV.
struct ChaosRelief {
  using role = roles::Relief;
  static constexpr Parting parting = Parting::preempt;
  struct State {
    Random random{2};
  };
  std::size_t choose(const View&, State& state, std::span<const Claim> candidates) const {
    return static_cast<std::size_t>(state.random.below(candidates.size()));
  }
  bool may_return(const View& view, const RequestRow& row) const { return (view.step + index(row.id)) % 3 != 0; }
};

struct ChaosRetention {
  using role = roles::Retention;
  static constexpr bool returns_layerwise = true;
  static constexpr bool finds_released = false;
  static constexpr bool keeps_hidden = false;
  static constexpr bool copies_ahead = false;
  [[nodiscard]] Kept on_preempt(const View& view, const RequestRow& row) const {
    const std::int64_t turn = (view.step + index(row.id)) % 3;
    return turn == 0 ? Kept::nothing : turn == 1 ? Kept::host : Kept::device;
  }
  [[nodiscard]] Kept on_reclaim(const View& view, const RequestRow& row) const {
    return (view.step + index(row.id)) % 4 == 0 ? Kept::nothing : Kept::host;
  }
};

/// The same, but KV returns as a whole.
struct ChaosSwap : ChaosRetention {
  static constexpr bool returns_layerwise = false;
};

/// Saves hidden states of some layers as they are computed, and at random keeps them instead of K and V.
struct ChaosHidden : ChaosRetention {
  static constexpr bool keeps_hidden = true;
  [[nodiscard]] Kept on_preempt(const View& view, const RequestRow& row) const {
    return (view.step + index(row.id)) % 3 == 0 ? ChaosRetention::on_preempt(view, row) : Kept::hidden;
  }
  template <class Cost>
  [[nodiscard]] LayerSet hidden_layers(const View& view, const RequestRow& row, const Cost& /*cost*/) const {
    LayerSet chosen;
    for (int layer = 0; layer < view.geometry.layers; ++layer)
      if ((static_cast<std::uint32_t>(layer) + index(row.id)) % 3 != 0) chosen.insert(layer);
    return chosen;
  }
};

/// Streams other layers in every step, whole or in part, through more slots or fewer.
struct ChaosWeights {
  using role = roles::Weights;
  static constexpr bool promises = false;
  static constexpr bool lends = false;
  struct State {
    Random random{3};
  };
  template <class Task>
  void offer(const Task& task, State& state, std::vector<WeightsLevel>& levels) const {
    const Geometry& geometry = task.view.geometry;
    WeightsLevel level;
    for (int layer = 0; layer < geometry.layers; ++layer)
      if (state.random.below(2) == 0) level.plan.streamed.insert(layer);
    const int count = level.plan.streamed.count();
    if (count < 2) return;
    level.plan.slots = 1 + static_cast<int>(state.random.below(static_cast<std::uint64_t>(count)));
    level.plan.share = state.random.below(2) == 0 ? 1 : 0.3 + 0.6 * state.random.uniform();
    level.plan.level = count - level.plan.slots;
    level.plan.freed = geometry.blocks_in(level.plan.share * (count - level.plan.slots));
    levels.push_back(level);
  }
  [[nodiscard]] LayerBlocks most_freed(const Geometry&) const { return LayerBlocks{0}; }
};

static_assert(Weights<ChaosWeights>);
static_assert(Placement<ChaosStates> && Placement<ChaosHosting> && Placement<ChaosPlacement> && Relief<ChaosRelief> &&
              Retention<ChaosRetention> && Retention<ChaosSwap> && Retention<ChaosHidden>);

} // namespace sluice::testing
