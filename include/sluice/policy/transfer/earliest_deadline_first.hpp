// SPDX-License-Identifier: Apache-2.0
// EarliestDeadlineFirst: OrbitFlow's buffers, with the link always serving the layer that is needed next.
#pragma once

#include "sluice/policy/transfer/buffered_streams.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/policy/transfer/transfer_scheduler.hpp"

#include <span>
#include <string_view>

namespace sluice {

/// A request's transfer may start when its previous offloaded layer has been computed (as in `FairShare`, a request has
/// a buffer of one layer); a transfer of streamed weights when a slot is free. Among these transfers the link serves
/// the one for the nearest layer, and switches to a nearer one.
///
/// A layer waits for the last of its transfers, so only the sums of released work per layer matter: O(R K + L) for R
/// requests with K offloaded layers.
struct EarliestDeadlineFirst {
  using role = roles::Transfer;
  static constexpr std::string_view name = "earliest-deadline-first";
  static constexpr bool needs_room = false;
  static constexpr TransferOrder order{TransferOrder::Start::previous_own_layer_ends, TransferOrder::Share::nearest};

  struct State {
    LayerArray ahead_link_s{};    ///< link work already done for each layer of the next token
    double background_blocks = 0; ///< blocks of a plan change still to be moved

    void clear() { *this = State{}; }
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
  static StepCost walk(const Pipeline& pipeline, State& state, Sink& sink);
};

static_assert(TransferScheduler<EarliestDeadlineFirst>);

} // namespace sluice

#ifdef SLUICE_COMPILED
namespace sluice {
extern template StepCost EarliestDeadlineFirst::walk(const Pipeline&, EarliestDeadlineFirst::State&, NoTimeline&);
extern template StepCost EarliestDeadlineFirst::walk(const Pipeline&, EarliestDeadlineFirst::State&, AnyTimeline&);
} // namespace sluice
#else
#include "sluice/policy/transfer/earliest_deadline_first.inl.hpp"
#endif
