// SPDX-License-Identifier: Apache-2.0
// Pipeline: the evaluator's input for one iteration, and its answer.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/policy/transfer/link_clock.hpp"
#include "sluice/state/plan/weight_stream.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace sluice {

/// The layer blocks that a request moves to the device in every iteration: the same number for each of its layers,
/// before that layer computes.
///
/// Blocks are a double here and in the whole evaluator: it is a fluid model in which fractions of a block are in
/// flight, and whole numbers below 2^53 stay exact.
struct LayerStream {
  LayerSet layers;         ///< layers counted from 0
  double blocks = 0;       ///< layer blocks in each of them, >= 0
  LayerSet written_back{}; ///< the layers among these whose blocks go back to the host once computed (Pie)
};

/// The link between host and device, in the evaluator's unit.
struct BlockLink {
  double blocks_per_s = 0; ///< layer blocks a second to the device, > 0
  /// Link time that each layer's transfer takes on top of its blocks (launches, segments; OrbitFlow's `Communication`
  /// B/L). The transfers of one layer share it equally, so a plan costs the link the same under every rule.
  double per_layer_s = 0;
  double out_blocks_per_s = 0; ///< of the lane to the host; 0: one lane serves both directions
  /// The fraction of each lane's rate, or of the one lane's, that is lost while both directions are active, in [0, 1).
  double mix_loss = 0;

  /// Whether each direction has a lane.
  [[nodiscard]] constexpr bool each_way() const { return out_blocks_per_s > 0; }
  /// How long the lane to the device takes for `blocks` in so many `transfers`, of a layer each.
  [[nodiscard]] constexpr double seconds(double blocks, int transfers) const {
    return blocks / blocks_per_s + per_layer_s * transfers;
  }
};

/// One iteration in the evaluator's terms. Views only: the caller keeps the arrays alive during the call.
struct Pipeline {
  std::span<const double> compute_s; ///< compute time of each layer, seconds; its size is the number of layers, L
  double before_s = 0;               ///< computed before the first layer (embedding); the link runs meanwhile
  double after_s = 0;                ///< computed after the last one (norm, output head, sampling)
  double on_link = 0;                ///< share of all that time that also uses the link, in [0, 1); see evaluate_link
  double host_wait_s = 0;            ///< part of each layer's time: the device waits for the host's attention
  BlockLink link;
  std::span<const LayerStream> streams; ///< the requests that offload; others may be left out
  WeightStream weights;                 ///< streamed too; none by default
  double room_blocks =
      0; ///< blocks in flight that the device has room for (budget - resident); only `DeadlinePool` reads it
  double urgent_blocks = 0; ///< moved to the device before any prefetch
  double first_blocks = 0;  ///< how many of these must arrive before the first layer starts (a whole swap-in)
  /// Moved to the host before any prefetch: evictions that make room for this iteration.
  double urgent_out_blocks = 0;
  /// Moved in the background, while the link is otherwise idle: the blocks of a plan change. What is left at the end
  /// stays in the rule's state for the next iteration. Room that an eviction frees counts from the next iteration on.
  double background_blocks = 0;
  double written_blocks = 0; ///< moved to the host by the end of the iteration, apart from written-back streams
  /// For the rules: the lane's share of the bus over time, which the caller sets, and the slowdown by the other lane,
  /// which `evaluate_link` finds.
  LinkClock clock;

  [[nodiscard]] int layers() const { return static_cast<int>(compute_s.size()); }
  [[nodiscard]] double compute_total_s() const {
    return before_s + std::accumulate(compute_s.begin(), compute_s.end(), 0.0) + after_s;
  }
};

/// How long the iteration took, and for how much of it the compute waited for transfers, or for the host's attention.
struct StepCost {
  double step_s = 0;
  double stall_s = 0;
  double link_s = 0; ///< link time of what the rule moved to the device, and of what had to cross before that

  /// Whether the computation waited, beyond rounding.
  [[nodiscard]] constexpr bool waits() const { return stall_s > 1e-9 * step_s; }
};

/// Why a layer waited.
enum class StallCause : std::uint8_t {
  none, ///< the layer did not wait
  link, ///< the link was busy until its blocks arrived: too many blocks
  room, ///< the link was late because it had been idle, without room or without the rule's permission to start
  host, ///< the host's attention took longer than what the device computed meanwhile
};

constexpr const char* to_string(StallCause cause) {
  switch (cause) {
  case StallCause::none:
    return "";
  case StallCause::link:
    return "link";
  case StallCause::room:
    return "room";
  case StallCause::host:
    return "host";
  }
  return "";
}

/// When a rule lets a transfer start, and which it serves first: what a backend that moves real bytes needs to know
/// besides the time predicted by `evaluate`. (The rules' table in docs/architecture.md, as values.)
struct TransferOrder {
  enum class Start : std::uint8_t {
    previous_layer_starts,   ///< the layer before its own starts to compute
    previous_own_layer_ends, ///< its request's previous offloaded layer has been computed
    room,                    ///< the device has room for it
  };
  enum class Share : std::uint8_t {
    equal,   ///< requests in turns, one block each
    nearest, ///< the layer that computes next
  };
  Start start = Start::room;
  Share share = Share::nearest;

  friend constexpr bool operator==(const TransferOrder&, const TransferOrder&) = default;
};

/// A timeline sink that ignores everything and costs nothing. Every sink has these three members. Times are seconds
/// from the start of the iteration. `stream` is a position in `Pipeline::streams`, or -1 if the rule moves a layer as a
/// whole. Layers L .. 2L-1 are the next token's.
struct NoTimeline {
  static constexpr bool enabled = false;
  void layer(int /*layer*/, double /*start_s*/, double /*end_s*/, double /*stall_s*/, StallCause /*cause*/) {}
  void transfer(int /*stream*/, int /*layer*/, double /*start_s*/, double /*end_s*/) {}
};

/// `Sink` also wants to know when the lane to the device is busy: `link(begin_s, end_s)`, spells that may overlap,
/// including prefetches for the next token and the background. If a transfer pauses for room, or moves in the
/// background, its spell is the longest possible one.
template <class Sink>
concept WatchesLink = requires(Sink& sink) {
  sink.link(0.0, 0.0);
};

/// One number per layer, on the stack.
using LayerArray = std::array<double, max_layers>;

namespace detail {

/// Tells a sink that watches the link that the link is busy from one link time to another.
template <class Sink>
constexpr void tell_link([[maybe_unused]] Sink& sink, [[maybe_unused]] const LinkClock& clock,
                         [[maybe_unused]] double begin_s, [[maybe_unused]] double end_s) {
  if constexpr (WatchesLink<Sink>)
    if (end_s > begin_s) sink.link(clock.seconds(begin_s), clock.seconds(end_s));
}

/// Blocks of KV to move per layer, for all requests together: all that `NextLayer` and `DeadlinePool` need.
inline void layer_loads(const Pipeline& pipeline, LayerArray& loads) {
  const auto layers = static_cast<std::size_t>(pipeline.layers());
  SLUICE_ASSERT(pipeline.layers() <= max_layers, "at most max_layers layers");
  std::fill_n(loads.begin(), layers, 0.0);
  // Adjacent streams that move the same layers are summed first: for a uniform placement that is one pass over the
  // layers for the whole batch.
  for (std::size_t i = 0; i < pipeline.streams.size();) {
    const LayerSet moved = pipeline.streams[i].layers;
    double blocks = 0;
    for (; i < pipeline.streams.size() && pipeline.streams[i].layers == moved; ++i)
      blocks += pipeline.streams[i].blocks;
    moved.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] += blocks; });
  }
}

/// The blocks that streams write back in an iteration.
inline double written_back_blocks(std::span<const LayerStream> streams) {
  double blocks = 0;
  for (const LayerStream& stream : streams) blocks += stream.blocks * stream.written_back.count();
  return blocks;
}

/// Room of blocks on their way to the host, which cannot be overwritten until they arrive: one layer of every request
/// that writes back. If the link lags by more, the iteration waits for the link, not for the room.
inline double leaving_blocks(std::span<const LayerStream> streams) {
  double blocks = 0;
  for (const LayerStream& stream : streams) blocks += stream.written_back.empty() ? 0 : stream.blocks;
  return blocks;
}

/// Blocks in flight at once, both ways, on top of the resident ones.
template <class Rule>
double in_flight_blocks(std::span<const double> loads, std::span<const LayerStream> streams) {
  return Rule::held_blocks(loads, streams) + leaving_blocks(streams);
}

/// The same for one stream in a model of so many `layers`.
template <class Rule>
double in_flight_blocks(const LayerStream& stream, int layers) {
  LayerArray loads{};
  stream.layers.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] = stream.blocks; });
  return in_flight_blocks<Rule>({loads.data(), static_cast<std::size_t>(layers)}, {&stream, 1});
}

/// The blocks that the link moves before any prefetch.
inline double urgent(const Pipeline& pipeline) { return pipeline.urgent_blocks + pipeline.urgent_out_blocks; }

/// When the first layer may start, in link time: requests that are swapped in whole have arrived.
inline double first_layer_s(const Pipeline& pipeline) { return pipeline.first_blocks / pipeline.link.blocks_per_s; }

/// The background work left after the link was idle for `idle_s`.
inline double background_left(double background_blocks, double idle_s, const BlockLink& link) {
  return background_blocks > 0 ? std::max(0.0, background_blocks - std::max(0.0, idle_s) * link.blocks_per_s) : 0;
}

} // namespace detail
} // namespace sluice
