// SPDX-License-Identifier: Apache-2.0
// NextLayer: each layer is fetched while the one before it computes (DeepSpeed, FlexGen).
#pragma once

#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/policy/transfer/transfer_scheduler.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

namespace sluice {

/// A layer's transfer may start when the layer before it starts to compute; the first layer's transfer at once, and
/// that of a later token when the last layer of the token before starts.
///
/// Streamed weights start in the same way once they have a slot. Only one layer is then in flight at any time: when
/// layer l-1 starts, its own blocks have arrived. The shares within a layer do not matter, because the layer waits for
/// the last of its transfers. So the per-layer sums suffice, O(L).
struct NextLayer {
  using role = roles::Transfer;
  static constexpr std::string_view name = "next-layer";
  static constexpr bool needs_room = false;
  static constexpr TransferOrder order{TransferOrder::Start::previous_layer_starts, TransferOrder::Share::equal};

  struct State {
    double ahead_link_s = 0;      ///< link work already done for the next token's first layer
    double background_blocks = 0; ///< blocks of a plan change still to be moved

    void clear() { *this = State{}; }
  };

  /// Two adjacent layers: one computes while the next arrives. The last is followed by the next token's first.
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
    return detail::walk_told(sink, [&](auto& told) { return walk(pipeline, loads, state, told); });
  }

 private:
  template <class Sink>
  static StepCost walk(const Pipeline& pipeline, std::span<const double> loads, State& state, Sink& sink);
};

static_assert(TransferScheduler<NextLayer>);

} // namespace sluice

#ifdef SLUICE_COMPILED
namespace sluice {
extern template StepCost NextLayer::walk(const Pipeline&, std::span<const double>, NextLayer::State&, NoTimeline&);
extern template StepCost NextLayer::walk(const Pipeline&, std::span<const double>, NextLayer::State&, AnyTimeline&);
} // namespace sluice
#else
#include "sluice/policy/transfer/next_layer.inl.hpp"
#endif
