// SPDX-License-Identifier: Apache-2.0
// Pipeline: the evaluator's input for one iteration, and its answer; its clock, its slots and its timeline.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/state/plan/plan.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>

namespace sluice {

// LinkClock: converts between seconds and the clock of a link that slows down for the other lane or other engines.

/// From `from_s` on, in seconds from the start of the iteration, the lane to the device has `share` of its rate, above
/// 0 and at most 1: other engines on the same bus have the others.
struct LinkSpell {
  double from_s = 0;
  double share = 1;

  friend constexpr bool operator==(const LinkSpell&, const LinkSpell&) = default;
};

/// The rules compute in link time, in which the link always moves one second's blocks per second. While the other lane
/// is active, from the start of the iteration until `slow_until_s`, the link loses the share `loss`; in each of
/// `spells` it has a share of the bus. Then its clock runs slow, and a layer's compute takes less link time. So a rule
/// moves blocks as usual, and adds compute time through `after`. Without loss and spells both clocks are equal to the
/// last bit.
struct LinkClock {
  double slow_until_s = 0;
  double loss = 0;
  std::span<const LinkSpell> spells{}; ///< ascending by `from_s`; before the first, the lane has its full rate

  /// Converts link time to seconds from the start of the iteration.
  [[nodiscard]] constexpr double seconds(double link_s) const {
    if (!spells.empty()) return walk<true>(link_s);
    if (slow_until_s <= 0) return link_s;
    return link_s < (1 - loss) * slow_until_s ? link_s / (1 - loss) : link_s + loss * slow_until_s;
  }
  [[nodiscard]] constexpr double link_time(double seconds) const {
    if (!spells.empty()) return walk<false>(seconds);
    if (slow_until_s <= 0) return seconds;
    return seconds < slow_until_s ? seconds * (1 - loss) : seconds - loss * slow_until_s;
  }
  /// The link time `compute_s` seconds after `link_s`.
  [[nodiscard]] constexpr double after(double link_s, double compute_s) const {
    if (spells.empty() && slow_until_s <= 0) return link_s + compute_s;
    return link_time(seconds(link_s) + compute_s);
  }

 private:
  /// Converts one clock to the other, from the start on; `ToSeconds` says which. Rates change with each spell and at
  /// `slow_until_s`. Times before the start are converted at the initial rate.
  template <bool ToSeconds>
  [[nodiscard]] constexpr double walk(double wanted) const {
    double at_s = 0;
    double link_s = 0;
    double share = 1;
    for (std::size_t next = 0;;) {
      for (; next < spells.size() && spells[next].from_s <= at_s; ++next) share = spells[next].share;
      const bool slow = at_s < slow_until_s;
      const double rate = slow ? share * (1 - loss) : share;
      double until_s = next < spells.size() ? spells[next].from_s : std::numeric_limits<double>::infinity();
      if (slow && slow_until_s < until_s) until_s = slow_until_s;
      if constexpr (ToSeconds) {
        if (link_s + (until_s - at_s) * rate >= wanted) return at_s + (wanted - link_s) / rate;
      } else {
        if (until_s >= wanted) return link_s + (wanted - at_s) * rate;
      }
      link_s += (until_s - at_s) * rate;
      at_s = until_s;
    }
  }
};

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

// contended: the cost of an iteration whose computation also uses the link, from its cost without that use.

/// The time that an iteration loses because its computation also uses the link (`Pipeline::on_link`, a share s).
/// Whenever both want the link, each gets half. While transfers are active, a second of compute time takes 1 + s
/// seconds, in which the link moves one second's blocks. So on the link's clock everything happens as if the
/// computation left the link alone, under any rule. The seconds added are s times those in which computing and
/// transfers overlap, which are the link's active seconds less the stalls, because a transfer is active while a layer
/// waits. The loss counts as stall: the computation waits for transfers in the middle of a layer.
///
/// Exact if s is spread evenly over the iteration. An all-reduce at the end of each half layer deviates if a transfer
/// is shorter than half a layer. (Rejected: an all-reduce with the link to itself. It would cost nothing when the link
/// has slack; a real bus serves all requesters in turns.)
[[nodiscard]] constexpr StepCost contended(const StepCost& alone, double on_link) {
  const double lost_s = on_link * std::max(0.0, alone.link_s - alone.stall_s);
  return {alone.step_s + lost_s, alone.stall_s + lost_s, alone.link_s};
}

} // namespace sluice

// SlotOrder: the order in which streamed weights pass through their slots, and when each layer may start.
namespace sluice::detail {

/// The streamed layers of this token and the next as one sequence: 0 .. K-1 are this token's, K .. 2K-1 the next one's.
/// All rules ask this class what the slots allow, so they differ only in which transfer gets the link.
class SlotOrder {
 public:
  explicit SlotOrder(const WeightStream& weights) : slots_(std::min(weights.slots, weights.layers.count())) {
    SLUICE_ASSERT(weights.empty() || weights.slots >= 1, "streamed weights need a slot");
    weights.layers.for_each([this](int layer) { order_[static_cast<std::size_t>(count_++)] = layer; });
  }

  [[nodiscard]] int count() const { return count_; }
  /// How many of the sequence may have started once `computed` layers of this token have been computed: the slots were
  /// free before the token, and each computed layer frees one. 0 if nothing is streamed.
  [[nodiscard]] int released(int computed) const { return slots_ + computed; }
  [[nodiscard]] int layer(int i) const { return order_[static_cast<std::size_t>(i < count_ ? i : i - count_)]; }
  /// The layer of element i, counted on into the next token, for a model of `layers`.
  [[nodiscard]] std::size_t position(int i, std::size_t layers) const {
    return static_cast<std::size_t>(layer(i)) + (i < count_ ? 0 : layers);
  }
  /// The layer of this token whose end frees the slot of element i, or -1 if the slot was free before this token.
  [[nodiscard]] int waits_for(int i) const { return i < slots_ ? -1 : layer(i - slots_); }

 private:
  int slots_;
  int count_ = 0;
  std::array<int, max_layers> order_; ///< the first `count_` are set
};

} // namespace sluice::detail

// AnyTimeline: a timeline sink for the evaluator, with its type erased.
namespace sluice {

/// Points to another sink, which must outlive it. A rule writes its timeline to this type only (`walk_told`), so its
/// loop is compiled twice, once with a timeline and once without, for all observers' sinks; and in a library once per
/// program, even for sinks that the library does not know.
class AnyTimeline {
 public:
  static constexpr bool enabled = true;

  template <class Sink>
    requires(!std::same_as<std::remove_const_t<Sink>, AnyTimeline>)
  explicit AnyTimeline(Sink& sink)
      : sink_(const_cast<void*>(static_cast<const void*>(&sink))),
        layer_([](void* to, int layer, double start_s, double end_s, double stall_s, StallCause cause) {
          static_cast<Sink*>(to)->layer(layer, start_s, end_s, stall_s, cause);
        }),
        transfer_([](void* to, int stream, int layer, double start_s, double end_s) {
          static_cast<Sink*>(to)->transfer(stream, layer, start_s, end_s);
        }) {
    if constexpr (WatchesLink<Sink>)
      link_ = [](void* to, double begin_s, double end_s) { static_cast<Sink*>(to)->link(begin_s, end_s); };
  }

  void layer(int layer, double start_s, double end_s, double stall_s, StallCause cause) {
    layer_(sink_, layer, start_s, end_s, stall_s, cause);
  }
  void transfer(int stream, int layer, double start_s, double end_s) {
    transfer_(sink_, stream, layer, start_s, end_s);
  }
  void link(double begin_s, double end_s) {
    if (link_ != nullptr) link_(sink_, begin_s, end_s);
  }

 private:
  void* sink_;
  void (*layer_)(void*, int, double, double, double, StallCause);
  void (*transfer_)(void*, int, int, double, double);
  void (*link_)(void*, double, double) = nullptr; ///< null: the sink does not watch the link
};

namespace detail {

/// Calls `walk` with an AnyTimeline of the sink if the sink wants a timeline, otherwise with NoTimeline.
template <class Sink, class Walk>
StepCost walk_told([[maybe_unused]] Sink& sink, Walk&& walk) {
  if constexpr (Sink::enabled) {
    AnyTimeline told{sink};
    return walk(told);
  } else {
    NoTimeline nothing;
    return walk(nothing);
  }
}

} // namespace detail

} // namespace sluice
