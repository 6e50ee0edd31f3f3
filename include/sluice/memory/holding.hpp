// SPDX-License-Identifier: Apache-2.0
// Holding: where the KV of one request is; what a holding takes of each memory, and what a change of holdings moves.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/layout/layout.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sluice {

/// Every token of a request, however many it comes to have.
inline constexpr Tokens all_tokens{std::numeric_limits<std::int64_t>::max()};

/// Where the KV of one request is, layer by layer. The same type says what a plan wants and what the ledger has.
///
/// The sets speak of the oldest `head` tokens; newer tokens are on the device in every layer. OrbitFlow's plans speak
/// of all tokens; eLLM's of an oldest share. A layer in neither set is resident.
struct Holding {
  Tokens head = all_tokens; ///< how many of the oldest tokens the sets speak of
  LayerSet host{};          ///< offloaded: on the host, fetched just in time in each iteration
  LayerSet nowhere{};       ///< recomputed: kept in neither memory, rebuilt on the device in each iteration
  LayerSet hidden{};        ///< of `nowhere`: layers whose K and V are made of hidden states, fetched from the host
  /// Of the layers that are resident, the oldest tokens that the host has as well, in clean copies: whole blocks. KV is
  /// only ever appended to, so that a full block stays clean, and need not cross the link again to leave the device.
  Tokens copied{0};
  /// Of the layers that are resident, those whose hidden states the host has as well, of every token computed: the
  /// iteration that computes a token writes its states out (HCache), so that a preempted request's layers can become
  /// `hidden` with nothing left to write.
  LayerSet saved{};
  /// Of `host`: all of each layer goes back after every iteration, not only what is new, so that the layer crosses both
  /// ways (Pie). The head is all tokens.
  bool written_back = false;

  /// Layers whose KV of the head is not resident.
  [[nodiscard]] constexpr LayerSet away() const { return host | nowhere; }
  /// No layer is away: every step finds all KV on the device.
  [[nodiscard]] constexpr bool all_resident() const { return away().empty(); }
  /// Every layer is resident, and the host has nothing of them besides.
  [[nodiscard]] constexpr bool on_device_alone() const { return (away() | saved).empty() && copied.count() == 0; }
  /// The same holding, had no hidden states of resident layers been saved.
  [[nodiscard]] constexpr Holding without_saved() const {
    Holding plain = *this;
    plain.saved = {};
    return plain;
  }
  /// Of a request's `blocks`, those that the sets speak of: whole blocks of the head alone.
  [[nodiscard]] constexpr TokenBlocks head_blocks(TokenBlocks blocks, Tokens block_tokens) const {
    return head == all_tokens ? blocks : std::min(blocks, TokenBlocks{head.count() / block_tokens.count()});
  }
  /// Of a request's `blocks`, those of each resident layer that the host has as clean copies.
  [[nodiscard]] constexpr TokenBlocks copied_blocks(TokenBlocks blocks, Tokens block_tokens) const {
    return copied.count() == 0 ? TokenBlocks{0} : std::min(blocks, TokenBlocks{copied.count() / block_tokens.count()});
  }
  /// Of a layer, the oldest blocks that are on the host, copies included.
  [[nodiscard]] constexpr TokenBlocks on_host(int layer, TokenBlocks blocks, Tokens block_tokens) const {
    if (host.contains(layer)) return head_blocks(blocks, block_tokens);
    return nowhere.contains(layer) ? TokenBlocks{0} : copied_blocks(blocks, block_tokens);
  }

  friend constexpr bool operator==(const Holding&, const Holding&) = default;
};

/// How large hidden states are beside K and V: the bytes of a block of each, of one layer. With grouped queries hidden
/// states are the larger. Of no size, as by default, they take no room and no time: eLLM's text reckons like that.
struct HiddenSize {
  Bytes hidden{0}; ///< of hidden states: one layer, the tokens of one block
  Bytes kv{1};     ///< of K and V of the same

  /// Hidden states of `blocks` layer blocks, in blocks of K and V.
  [[nodiscard]] constexpr double blocks(double blocks) const {
    return blocks * static_cast<double>(hidden.count()) / static_cast<double>(kv.count());
  }
  /// The same as room: whole blocks of one request's layers, stored one after the other.
  [[nodiscard]] constexpr LayerBlocks room(std::int64_t blocks) const {
    return LayerBlocks{(blocks * hidden.count() + kv.count() - 1) / kv.count()};
  }
};

/// What a holding of some tokens takes of each memory.
struct Footprint {
  LayerBlocks device{0}; ///< of the device's KV memory
  LayerBlocks host{0};   ///< of the host's

  friend constexpr Footprint operator+(Footprint a, Footprint b) { return {a.device + b.device, a.host + b.host}; }
  friend constexpr Footprint operator-(Footprint a, Footprint b) { return {a.device - b.device, a.host - b.host}; }
  friend constexpr bool operator==(const Footprint&, const Footprint&) = default;
};

/// The room that `blocks` token blocks of a request take when held as `holding` says. `room(blocks, held)` is what
/// token blocks take of which `held` layers are held. The one place where it is counted: plans, the ledger and the
/// staleness check all call it.
template <class Room>
[[nodiscard]] constexpr Footprint footprint_by(const Room& room, const Holding& holding, TokenBlocks blocks,
                                               Tokens block_tokens, int layers, HiddenSize hidden) {
  const TokenBlocks copied = holding.copied_blocks(blocks, block_tokens);
  if (holding.all_resident()) {
    const LayerBlocks states =
        holding.saved.empty() ? LayerBlocks{0} : hidden.room(blocks.count() * holding.saved.count());
    return {room(blocks, layers), room(copied, layers) + states};
  }
  const TokenBlocks head = holding.head_blocks(blocks, block_tokens);
  const int resident = layers - holding.away().count();
  // One sum: a request's states are stored one after the other, whether K and V are resident besides or not.
  const std::int64_t states = head.count() * holding.hidden.count() + blocks.count() * holding.saved.count();
  return {room(head, resident) + room(blocks - head, layers),
          room(head, holding.host.count()) + room(copied, resident) + hidden.room(states)};
}

/// The same in a layout.
template <Layout L>
[[nodiscard]] constexpr Footprint footprint(const Holding& holding, TokenBlocks blocks, Tokens block_tokens, int layers,
                                            HiddenSize hidden = {}) {
  return footprint_by([layers](TokenBlocks some, int held) { return L::room(some, held, layers); }, holding, blocks,
                      block_tokens, layers, hidden);
}

/// What crosses the link when a request goes from one holding to another.
struct Movement {
  LayerBlocks to_device{0};
  LayerBlocks to_host{0};

  friend constexpr Movement operator+(Movement a, Movement b) {
    return {a.to_device + b.to_device, a.to_host + b.to_host};
  }
};

/// The least that must move: layers newly on the host are written out, but for blocks that have a clean copy there;
/// layers newly on the device are fetched; blocks in the right place stay, and new copies are written. A layer that
/// becomes `nowhere` is dropped, one that was `nowhere` and is wanted on the host is first rebuilt by an iteration and
/// then written out. Where a head shrinks, the tokens that leave it become resident. Hidden states that are newly kept
/// are written out, whether K and V stay beside them (`saved`) or go (`hidden`); from the one to the other nothing
/// crosses, since the host has them. Hidden states no longer kept are dropped.
[[nodiscard]] constexpr Movement movement(const Holding& from, const Holding& to, TokenBlocks blocks,
                                          Tokens block_tokens, int layers, HiddenSize hidden = {}) {
  const std::int64_t before = from.head_blocks(blocks, block_tokens).count();
  const std::int64_t after = to.head_blocks(blocks, block_tokens).count();
  const std::int64_t fetched = before * (from.host - to.away()).count() +
                               std::max<std::int64_t>(0, before - after) * (from.host & to.away()).count();
  const std::int64_t written =
      after * (to.host - from.host).count() + std::max<std::int64_t>(0, after - before) * (to.host & from.host).count();
  std::int64_t copied = 0; // written to be copies, less what need not be written since it has one
  const std::int64_t had = from.copied_blocks(blocks, block_tokens).count();
  const std::int64_t has = to.copied_blocks(blocks, block_tokens).count();
  if (had > 0 || has > 0) {
    copied -= std::min(had, after) * (to.host - from.away()).count();
    const LayerSet here = LayerSet::all(layers) - to.away();
    copied += std::max<std::int64_t>(0, has - had) * (here - from.away()).count() +
              std::max<std::int64_t>(0, has - before) * (here & from.host).count() +
              has * (here & from.nowhere).count();
  }
  std::int64_t states = after * (to.hidden - from.hidden - from.saved).count() +
                        std::max<std::int64_t>(0, after - before) * (to.hidden & from.hidden).count();
  if (!to.saved.empty())
    states += blocks.count() * (to.saved - from.saved - from.hidden).count() +
              (blocks.count() - before) * (to.saved & from.hidden).count();
  return {LayerBlocks{fetched}, LayerBlocks{written + copied} + hidden.room(states)};
}

} // namespace sluice
