// SPDX-License-Identifier: Apache-2.0
// FairShare: OrbitFlow's text (3.3.1): one stream per request, and the link in equal shares.
#pragma once

#include "sluice/policy/transfer/buffered_streams.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/policy/transfer/transfer_scheduler.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// A request's transfer may start when its previous offloaded layer has been computed: a request has a buffer of one
/// layer, and one layer in flight. All transfers in flight divide the link evenly; when one ends, the others get its
/// share. The next token's first layer follows this token's last. Streamed weights are one more stream, with a buffer
/// per slot but one layer in flight: a copy stream takes its layers in order.
///
/// The printed Algorithm 1 differs from that text (it credits a transfer only with the preceding layer's time) and
/// contradicts the paper's own Fig. 3, so this rule follows the text.
struct FairShare {
  using role = roles::Transfer;
  static constexpr std::string_view name = "fair-share";
  static constexpr bool needs_room = false;
  static constexpr TransferOrder order{TransferOrder::Start::previous_own_layer_ends, TransferOrder::Share::equal};

  struct State {
    /// Link work already done for each stream's first layer of the next token, in the order of `Pipeline::streams`,
    /// then for the weights' first layer that has not arrived. A caller that adds, removes or reorders streams clears
    /// it.
    std::vector<double> ahead_link_s;
    int ahead_weights = 0;        ///< streamed layers of the next token that have arrived
    double background_blocks = 0; ///< blocks of a plan change still to be moved

    void clear() {
      std::fill(ahead_link_s.begin(), ahead_link_s.end(), 0.0);
      ahead_weights = 0;
      background_blocks = 0;
    }

    /// Scratch of `evaluate`, kept so that a steady state allocates nothing.
    struct Flow {
      int target = -1;         ///< the layer in flight (L and above: the next token's), or -1
      double finish_share = 0; ///< the flow ends when every flow's share since the start reaches this
      double begin_s = 0;
    };
    /// Flows launched together: a range of `queue`, in the order in which they end.
    struct Launch {
      std::size_t next = 0;
      std::size_t end = 0;
    };
    std::vector<Flow> flows;          ///< by stream
    std::vector<std::size_t> by_size; ///< streams, the smallest first
    std::vector<std::size_t> queue;   ///< streams, by launch
    std::vector<Launch> launches;     ///< launches with at least one flow left
  };

  static double held_blocks(std::span<const double> /*loads*/, std::span<const LayerStream> streams) {
    return detail::request_buffers(streams);
  }

  template <class Sink = NoTimeline>
  static StepCost evaluate(const Pipeline& pipeline, State& state, Sink&& sink = Sink{}) {
    return detail::walk_told(sink, [&](auto& told) { return walk(pipeline, state, told); });
  }

 private:
  template <class Sink>
  class Walk;
  template <class Sink>
  static StepCost walk(const Pipeline& pipeline, State& state, Sink& sink);
};

static_assert(TransferScheduler<FairShare>);

} // namespace sluice

#ifdef SLUICE_COMPILED
namespace sluice {
extern template StepCost FairShare::walk(const Pipeline&, FairShare::State&, NoTimeline&);
extern template StepCost FairShare::walk(const Pipeline&, FairShare::State&, AnyTimeline&);
} // namespace sluice
#else
#include "sluice/policy/transfer/fair_share.inl.hpp"
#endif
