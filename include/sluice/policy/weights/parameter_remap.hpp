// SPDX-License-Identifier: Apache-2.0
// ParameterRemap: when KV runs out, the memory of some layers' weights becomes KV blocks (MIRAGE).
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/core/numbers.hpp"
#include "sluice/policy/weights/weights.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {

/// `count` of the layers `among`, evenly spaced on the circle of tokens, on which the first layer follows the last
/// (MIRAGE, 5.4: the uniform-interval selection).
[[nodiscard]] constexpr LayerSet circular_layers(LayerSet among, int count) {
  const int layers = among.count();
  LayerSet set;
  int place = 0, chosen = 0;
  among.for_each([&](int layer) {
    if (chosen == count || place++ < chosen * layers / count) return;
    set.insert(layer);
    ++chosen;
  });
  return set;
}

/// Through how many slots the layers that lend their memory stream.
enum class RemapSlots : std::uint8_t {
  by_equations, ///< one or two, as the equations say
  one,          ///< alpha + 1 layers through one slot, even if it does not hide them (MIRAGE's ablation A, 7.5)
  two,          ///< alpha + 2 layers through two slots (B)
};

/// Lends the memory of alpha layers to KV, as few as the demand needs; the weights are only read, so nothing is written
/// back. To gain the room of alpha layers, alpha + 1 layers share one slot, or alpha + 2 share two (MIRAGE, 5.4):
///
/// * alpha + 1, if T_T (alpha + 1) <= T_c (n - alpha - 1): eq. 4, a transfer waits until the slot's layer is computed
/// * alpha + 2, if T_T (alpha + 2) <= T_c n: eq. 5, two slots hide it behind all layers
///
/// and otherwise whichever the evaluator finds shorter. The text says that two slots pay off from alpha = 9 on (n =
/// 40); by the equations they allow more as soon as (alpha + 1)(alpha + 2) > n, from 6 on. This code follows the
/// equations.
///
/// The equations are of layers that are alike. Where layers differ, the evaluator says what their own times hide.
///
/// It lends no layer beyond what the computation hides, nor beyond `most_layers`. A lent layer
/// stays lent while the demand needs it, even if a smaller batch hides less: taking it back would preempt the requests
/// whose KV is there. With `revert`, memory returns when the demand falls (7.6), once a whole additional layer would be
/// spare: without that margin the level would change with every block.
///
/// `Slots` and `Reverts` are what MIRAGE's ablations vary. The number of lent layers depends on neither: 7.5 says that
/// one slot always disrupts the computation, so the ablation does not avoid that by lending less.
template <RemapSlots Slots = RemapSlots::by_equations, bool Reverts = true>
struct BasicParameterRemap {
  using role = roles::Weights;
  static constexpr bool promises = false;
  static constexpr bool lends = true;
  struct State {
    StreamedStep step;
  };

  int most_layers = 1'000; ///< cap, so that a model can still start; above the number of layers: all but two
  bool revert = Reverts;   ///< dynamic reversion
  bool only_hidden = true; ///< false: as many layers as the demand needs, even if their transfers stall
  static constexpr auto numbers =
      Numbers{"ParameterRemap",
              Number{"most_layers", &BasicParameterRemap::most_layers, 0, 1e5, "layers whose memory is lent, at most"},
              Number{"revert", &BasicParameterRemap::revert, 0, 1, "whether memory returns when the demand falls"},
              Number{"only_hidden", &BasicParameterRemap::only_hidden, 0, 1, "0: transfers may stall"}};

  template <class Task>
  void offer(const Task& task, State& state, std::vector<WeightsLevel>& levels) const {
    const Geometry& geometry = task.view.geometry;
    const double layer_blocks = static_cast<double>(geometry.layer_weight_bytes.count()) /
                                static_cast<double>(geometry.layer_block_bytes.count());
    const auto needed_for = [&](LayerBlocks demand) {
      const LayerBlocks missing = demand - task.own;
      if (missing <= LayerBlocks{0} || layer_blocks <= 0) return 0;
      return static_cast<int>(math::ceil(std::min(1e6, static_cast<double>(missing.count()) / layer_blocks)));
    };
    const int most = std::min(
        {most_layers, geometry.streamable_layers() - 2, only_hidden ? most_hidden(task, state) : geometry.layers});
    int own = std::min(needed_for(task.demand), std::max({0, most - task.lent, task.taken}));
    if (own < task.taken) {
      const auto spare = LayerBlocks{static_cast<std::int64_t>(layer_blocks)};
      own = revert ? std::max(own, std::min(task.taken, needed_for(task.demand + spare))) : task.taken;
    }
    const int alpha = own + task.lent;
    for (int less = alpha; less >= std::max(1, task.lent); --less) levels.push_back(level_of(task, state, less));
  }
  /// With `only_hidden` 0: the hidden amount depends on the batch, so the policy guarantees nothing.
  [[nodiscard]] LayerBlocks most_freed(const Geometry& geometry) const {
    if (only_hidden) return LayerBlocks{0};
    const int most = std::clamp(most_layers, 0, std::max(0, geometry.streamable_layers() - 2));
    return geometry.blocks_in(most);
  }

  /// Layers that a model lends while it is inactive: as many as its prefill hides when its turn comes (5.3), up to the
  /// same cap.
  [[nodiscard]] int most_lent(int layers, double transfer_s, double prefill_s) const {
    const double hidden = std::min(prefill_s / transfer_s, static_cast<double>(layers));
    return std::max(0, std::min({most_layers, layers - 2, static_cast<int>(hidden)}));
  }

  /// Equation 4 of MIRAGE for `alpha` of `layers` layers; below, equation 5.
  [[nodiscard]] static bool one_slot_hides(int layers, int alpha, double transfer_s, double compute_s) {
    return transfer_s * (alpha + 1) <= compute_s * (layers - alpha - 1);
  }
  [[nodiscard]] static bool two_slots_hide(int layers, int alpha, double transfer_s, double compute_s) {
    return alpha + 2 <= layers && transfer_s * (alpha + 2) <= compute_s * layers;
  }

  /// The level that lends `alpha` layers' memory.
  template <class Task>
  [[nodiscard]] static WeightsLevel level_of(const Task& task, State& state, int alpha) {
    const Geometry& geometry = task.view.geometry;
    const WeightsLevel one = WeightsLevel::of(geometry, circular_layers(geometry.streamable(), alpha + 1), 1);
    if (Slots == RemapSlots::one) return one;
    const WeightsLevel two = WeightsLevel::of(geometry, circular_layers(geometry.streamable(), alpha + 2), 2);
    if (Slots == RemapSlots::two) return two;
    if (geometry.alike()) {
      if (one_slot_hides(geometry.layers, alpha, task.layer_transfer_s(), task.layer_compute_s())) return one;
      if (two_slots_hide(geometry.layers, alpha, task.layer_transfer_s(), task.layer_compute_s())) return two;
    }
    return state.step(task, one.plan) <= state.step(task, two.plan) ? one : two;
  }

 private:
  /// The most layers that can be lent while the computation hides their transfers.
  template <class Task>
  [[nodiscard]] static int most_hidden(const Task& task, State& state) {
    const double transfer_s = task.layer_transfer_s();
    const double compute_s = task.layer_compute_s();
    const Geometry& geometry = task.view.geometry;
    const Seconds resident = geometry.alike() ? Seconds{0} : state.step(task, {}) * (1 + 1e-9);
    for (int alpha = geometry.streamable_layers() - 2; alpha > 0; --alpha) {
      const auto hides = [&](int slots) {
        const LayerSet streamed = circular_layers(geometry.streamable(), alpha + slots);
        return state.step(task, WeightsLevel::of(geometry, streamed, slots).plan) <= resident;
      };
      if (geometry.alike() ? one_slot_hides(task.layers(), alpha, transfer_s, compute_s) ||
                                 two_slots_hide(task.layers(), alpha, transfer_s, compute_s)
                           : hides(1) || hides(2))
        return alpha;
    }
    return 0;
  }
};

using ParameterRemap = BasicParameterRemap<>;

static_assert(Weights<ParameterRemap> && Weights<BasicParameterRemap<RemapSlots::one, false>>);

} // namespace sluice
