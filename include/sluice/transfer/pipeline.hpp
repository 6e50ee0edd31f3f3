// SPDX-License-Identifier: Apache-2.0
// Pipeline: what the evaluator is told about one iteration, and what it tells back.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/plan/weight_stream.hpp"
#include "sluice/transfer/link_clock.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace sluice {

/// What a request moves to the device in every iteration: the same number of layer blocks for each of its layers,
/// before that layer computes.
///
/// Blocks are a double here and in the whole evaluator: it is a fluid model, parts of a block are in flight, and whole
/// numbers below 2^53 stay exact.
struct LayerStream {
  LayerSet layers;         ///< layers counted from 0
  double blocks = 0;       ///< layer blocks in each of them, >= 0
  LayerSet written_back{}; ///< of these layers, those whose blocks go back to the host once computed (Pie)
};

/// The link between host and device, in the evaluator's unit.
struct BlockLink {
  double blocks_per_s = 0; ///< layer blocks a second to the device, > 0
  /// Link time that each layer's transfer takes on top of its blocks (launches, segments; OrbitFlow's `Communication`
  /// B/L). The transfers of one layer share it equally, so that the same plan costs the link the same under every rule.
  double per_layer_s = 0;
  double out_blocks_per_s = 0; ///< of the lane to the host; 0: there is one lane for both ways
  /// What is lost while both ways are active, in [0, 1): of each lane's rate, or of the one lane's.
  double mix_loss = 0;

  /// There is a lane for each way.
  [[nodiscard]] constexpr bool each_way() const { return out_blocks_per_s > 0; }
};

/// One iteration as the evaluator sees it. Views only: the caller keeps the arrays alive during the call.
struct Pipeline {
  std::span<const double> compute_s; ///< compute time of each layer, seconds; its size is the number of layers, L
  double before_s = 0;               ///< computed before the first layer (embedding); the link runs meanwhile
  double after_s = 0;                ///< computed after the last one (norm, output head, sampling)
  double on_link = 0;                ///< share of all that time that needs the link as well, in [0, 1); evaluate_link
  BlockLink link;
  std::span<const LayerStream> streams; ///< the requests that offload; the others may be left out
  WeightStream weights;                 ///< streamed as well; none by default
  double room_blocks = 0; ///< blocks in flight that the device holds (budget - resident); read by `DeadlinePool` alone
  double urgent_blocks = 0; ///< moved to the device before any prefetch
  double first_blocks = 0;  ///< of these, what must have arrived before the first layer starts (a whole swap-in)
  /// Moved to the host before any prefetch: evictions that make the room of this iteration.
  double urgent_out_blocks = 0;
  /// Moved in the background, when the link has nothing else to do: the delta of a plan. What is left at the end stays
  /// in the rule's state for the next iteration. Room that an eviction frees counts from the iteration after it.
  double background_blocks = 0;
  double written_blocks = 0; ///< moved to the host by the end of the iteration, apart from what streams write back
  /// For the rules: the shares of the bus that the lane to the device has meanwhile, which the caller sets, and what
  /// the other lane costs it, which `evaluate_link` finds.
  LinkClock clock;

  [[nodiscard]] int layers() const { return static_cast<int>(compute_s.size()); }
  [[nodiscard]] double compute_total_s() const {
    return before_s + std::accumulate(compute_s.begin(), compute_s.end(), 0.0) + after_s;
  }
};

/// How long the iteration took, and how much of that the compute waited for transfers.
struct StepCost {
  double step_s = 0;
  double stall_s = 0;
  double link_s = 0; ///< link time of what a rule moved to the device, and of what had to cross before that
};

/// Why a layer waited.
enum class StallCause : std::uint8_t {
  none, ///< the layer did not wait
  link, ///< the link was never idle before its blocks had arrived: too many blocks
  room, ///< the link was late because it had been idle, for want of room or of the rule's leave to start
};

constexpr const char* to_string(StallCause cause) {
  switch (cause) {
  case StallCause::none:
    return "";
  case StallCause::link:
    return "link";
  case StallCause::room:
    return "room";
  }
  return "";
}

/// When a rule lets a transfer start, and which it serves first: what a backend that moves real bytes needs of the rule
/// besides the time that its `evaluate` predicts. (The rules' table in docs/architecture.md, as values.)
struct TransferOrder {
  enum class Start : std::uint8_t {
    previous_layer_starts,   ///< the layer before its own starts to compute
    previous_own_layer_ends, ///< its request's previous offloaded layer has been computed
    room,                    ///< the device has room for it
  };
  enum class Share : std::uint8_t {
    equal,   ///< requests in turns, a block each
    nearest, ///< the layer that computes next
  };
  Start start = Start::room;
  Share share = Share::nearest;

  friend constexpr bool operator==(const TransferOrder&, const TransferOrder&) = default;
};

/// A sink of the evaluator's timeline that ignores everything and costs nothing. A sink has the same three members;
/// times are seconds from the start of the iteration. `stream` is a position in `Pipeline::streams`, or -1 where the
/// rule moves a layer as a whole. Layers L .. 2L-1 are the next token's.
struct NoTimeline {
  static constexpr bool enabled = false;
  void layer(int /*layer*/, double /*start_s*/, double /*end_s*/, double /*stall_s*/, StallCause /*cause*/) {}
  void transfer(int /*stream*/, int /*layer*/, double /*start_s*/, double /*end_s*/) {}
};

/// `Sink` also wants to know when the lane to the device works: `link(begin_s, end_s)`, spells that may overlap, the
/// prefetches for the next token and the background included. Where a transfer waits for room in between, or moves in
/// the background, a spell is as long as it can be.
template <class Sink>
concept WatchesLink = requires(Sink& sink) {
  sink.link(0.0, 0.0);
};

/// One number per layer, on the stack.
using LayerArray = std::array<double, max_layers>;

namespace detail {

/// Tells a sink that watches the link that the link works, from one link time to another.
template <class Sink>
constexpr void tell_link([[maybe_unused]] Sink& sink, [[maybe_unused]] const LinkClock& clock,
                         [[maybe_unused]] double begin_s, [[maybe_unused]] double end_s) {
  if constexpr (WatchesLink<Sink>)
    if (end_s > begin_s) sink.link(clock.seconds(begin_s), clock.seconds(end_s));
}

/// Blocks of KV to move per layer, all requests together: the only thing that `NextLayer` and `DeadlinePool` need.
inline void layer_loads(const Pipeline& pipeline, LayerArray& loads) {
  const auto layers = static_cast<std::size_t>(pipeline.layers());
  SLUICE_ASSERT(pipeline.layers() <= max_layers, "at most max_layers layers");
  std::fill_n(loads.begin(), layers, 0.0);
  // Neighbours that move the same layers are summed first: under a uniform placement that is one pass over the layers
  // for the whole batch.
  for (std::size_t i = 0; i < pipeline.streams.size();) {
    const LayerSet moved = pipeline.streams[i].layers;
    double blocks = 0;
    for (; i < pipeline.streams.size() && pipeline.streams[i].layers == moved; ++i)
      blocks += pipeline.streams[i].blocks;
    moved.for_each([&](int layer) { loads[static_cast<std::size_t>(layer)] += blocks; });
  }
}

/// What streams write back in an iteration, in blocks.
inline double written_back_blocks(std::span<const LayerStream> streams) {
  double blocks = 0;
  for (const LayerStream& stream : streams) blocks += stream.blocks * stream.written_back.count();
  return blocks;
}

/// Room of blocks on their way to the host, which cannot be overwritten until they are there: one layer of every
/// request that writes back. Where the link lags behind by more, the iteration waits for the link and not for the room.
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

/// What the link does before any prefetch, in blocks.
inline double urgent(const Pipeline& pipeline) { return pipeline.urgent_blocks + pipeline.urgent_out_blocks; }

/// When the first layer may start, in link time: what is swapped in whole has arrived.
inline double first_layer_s(const Pipeline& pipeline) { return pipeline.first_blocks / pipeline.link.blocks_per_s; }

/// What is left of the background work after the link was idle for `idle_s`.
inline double background_left(double background_blocks, double idle_s, const BlockLink& link) {
  return background_blocks > 0 ? std::max(0.0, background_blocks - std::max(0.0, idle_s) * link.blocks_per_s) : 0;
}

} // namespace detail
} // namespace sluice
