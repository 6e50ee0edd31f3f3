// SPDX-License-Identifier: Apache-2.0
// Holding: the residency of one request's KV, the memory that it takes, and what a change of residency moves.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/kv_groups.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sluice {

/// All tokens of a request, however many there will be.
inline constexpr Tokens all_tokens{std::numeric_limits<std::int64_t>::max()};

/// Where the KV of one request is, layer by layer. Plans and the ledger use the same type.
///
/// The sets refer to the oldest `head` tokens; newer tokens are on the device in every layer. OrbitFlow's plans refer
/// to all tokens, eLLM's to an oldest share. A layer in neither `host` nor `nowhere` is resident.
struct Holding {
  Tokens head = all_tokens; ///< how many of the oldest tokens the sets refer to
  LayerSet host{};          ///< offloaded: on the host, fetched just in time in each iteration
  LayerSet nowhere{};       ///< recomputed: kept in neither memory, rebuilt on the device in each iteration
  LayerSet hidden{}; ///< layers of `nowhere` whose K and V are rebuilt from hidden states (see `states_on_device`)
  /// How many of the oldest tokens of resident layers also have a clean copy on the host, in whole blocks. KV is only
  /// appended to: a full block stays clean, and need not cross the link again to leave the device.
  Tokens copied{0};
  /// Resident layers whose hidden states, of every computed token, are also on the host. The iteration that computes a
  /// token writes its states out (HCache), so a preempted request's layers can become `hidden` without further writes.
  LayerSet saved{};
  /// The layers of `host` go back completely after every iteration, not only their new tokens, so that they cross the
  /// link both ways (Pie). The head is then all tokens.
  bool written_back = false;
  /// The host's processor computes the attention of single tokens over KV that stays on the host, and no iteration
  /// fetches it (NEO). `host` then has all layers, for all tokens.
  bool attended_on_host = false;
  /// The hidden states of `hidden` are on the device: rebuilding fetches nothing (Apt-Serve).
  bool states_on_device = false;
  /// In layers of `hidden`, the host also gets the states of the block behind the head, token by token, since the head
  /// takes that block once it is full (KVPR).
  bool next_states = false;

  /// Layers that are not resident for the head.
  [[nodiscard]] constexpr LayerSet away() const { return host | nowhere; }
  /// Whether no layer is away: every step finds all KV on the device.
  [[nodiscard]] constexpr bool all_resident() const { return away().empty(); }
  /// Whether every layer is resident and the host has no copy or hidden state of it.
  [[nodiscard]] constexpr bool on_device_alone() const { return (away() | saved).empty() && copied.count() == 0; }
  /// Layers of `host` that an iteration fetches.
  [[nodiscard]] constexpr LayerSet fetched() const { return attended_on_host ? LayerSet{} : host; }
  /// Layers of `hidden` whose states are on the host, so that each iteration fetches them.
  [[nodiscard]] constexpr LayerSet hidden_on_host() const { return states_on_device ? LayerSet{} : hidden; }
  /// The same without saved hidden states of resident layers.
  [[nodiscard]] constexpr Holding without_saved() const {
    Holding plain = *this;
    plain.saved = {};
    return plain;
  }
  /// The same without copies and saved hidden states of resident layers: what a request cannot give up and still run.
  [[nodiscard]] constexpr Holding without_spare() const {
    Holding plain = without_saved();
    plain.copied = Tokens{0};
    return plain;
  }
  /// How many of a request's `blocks` the sets refer to: the head's whole blocks.
  [[nodiscard]] constexpr TokenBlocks head_blocks(TokenBlocks blocks, Tokens block_tokens) const {
    return head == all_tokens ? blocks : std::min(blocks, TokenBlocks{head.count() / block_tokens.count()});
  }
  /// How many of a request's `blocks` have states on the host in a layer of `hidden_on_host`.
  [[nodiscard]] constexpr TokenBlocks state_blocks(TokenBlocks blocks, Tokens block_tokens) const {
    return std::min(blocks, head_blocks(blocks, block_tokens) + TokenBlocks{next_states ? 1 : 0});
  }
  /// How many of a request's `blocks` have a clean copy on the host, for each resident layer.
  [[nodiscard]] constexpr TokenBlocks copied_blocks(TokenBlocks blocks, Tokens block_tokens) const {
    return copied.count() == 0 ? TokenBlocks{0} : std::min(blocks, TokenBlocks{copied.count() / block_tokens.count()});
  }
  /// How many of a layer's oldest blocks are on the host, copies included.
  [[nodiscard]] constexpr TokenBlocks on_host(int layer, TokenBlocks blocks, Tokens block_tokens) const {
    if (host.contains(layer)) return head_blocks(blocks, block_tokens);
    return nowhere.contains(layer) ? TokenBlocks{0} : copied_blocks(blocks, block_tokens);
  }

  friend constexpr bool operator==(const Holding&, const Holding&) = default;
};

/// The size of hidden states relative to K and V: the bytes of one layer's block of each. With grouped queries hidden
/// states are larger. By default they have no size and take no room and no time, as in eLLM's text.
struct HiddenSize {
  Bytes hidden{0}; ///< hidden states of one layer for the tokens of one block
  Bytes kv{1};     ///< K and V of the same

  /// The hidden states of `blocks` layer blocks, in blocks of K and V.
  [[nodiscard]] constexpr double blocks(double blocks) const {
    return blocks * static_cast<double>(hidden.count()) / static_cast<double>(kv.count());
  }
  /// The same as room on the host: whole blocks; one request's layers are stored one after the other.
  [[nodiscard]] constexpr LayerBlocks room(std::int64_t blocks) const {
    return LayerBlocks{(blocks * hidden.count() + kv.count() - 1) / kv.count()};
  }
  /// One layer's hidden states of `blocks` token blocks as room on the device: whole blocks of as many whole states as
  /// fit, as a machine stores them (`KvBlockShape::hidden_tokens`). A layer has blocks of its own because it may give
  /// them up before the layers above it. If not even one state fits into a block, a machine keeps none; here a state
  /// then takes several blocks.
  [[nodiscard]] constexpr LayerBlocks layer_room(TokenBlocks blocks, Tokens block_tokens) const {
    const std::int64_t each = hidden.count() == 0 ? 0 : kv.count() * block_tokens.count() / hidden.count();
    if (each == 0) return room(blocks.count());
    return LayerBlocks{(blocks.count() * block_tokens.count() + each - 1) / each};
  }
};

/// The room that a request's KV takes in each memory.
struct Footprint {
  LayerBlocks device{0}; ///< of the device's KV memory
  LayerBlocks host{0};   ///< of the host's KV memory

  friend constexpr Footprint operator+(Footprint a, Footprint b) { return {a.device + b.device, a.host + b.host}; }
  friend constexpr Footprint operator-(Footprint a, Footprint b) { return {a.device - b.device, a.host - b.host}; }
  friend constexpr bool operator==(const Footprint&, const Footprint&) = default;
};

/// The room that `blocks` token blocks of a request take with the residency `holding`. `room(blocks, held)`: the room
/// of token blocks with `held` resident layers. Room is counted only here and in `footprint_of`: plans, the ledger and
/// `still_fits` all call them.
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
  // One sum: a request's states are stored one after the other, whether or not K and V are resident too.
  const std::int64_t states = holding.state_blocks(blocks, block_tokens).count() * holding.hidden_on_host().count() +
                              blocks.count() * holding.saved.count();
  const LayerBlocks here =
      holding.states_on_device ? hidden.layer_room(head, block_tokens) * holding.hidden.count() : LayerBlocks{0};
  return {room(head, resident) + room(blocks - head, layers) + here,
          room(head, holding.host.count()) + room(copied, resident) + hidden.room(states)};
}

/// The same for layers that keep different amounts of KV. Hidden states are not kept for such a model.
[[nodiscard, gnu::noinline]] constexpr Footprint footprint_of(const KvBlocks& kv, const Holding& holding,
                                                              TokenBlocks blocks, Tokens block_tokens, int layers) {
  const std::int64_t total = blocks.count(), head = holding.head_blocks(blocks, block_tokens).count();
  const LayerSet all = LayerSet::all(layers), resident = all - holding.away();
  return {LayerBlocks{kv.room(0, head, total, resident) + kv.room(head, total, total, all)},
          LayerBlocks{kv.room(0, head, total, holding.host) +
                      kv.room(0, holding.copied_blocks(blocks, block_tokens).count(), total, resident)}};
}

/// The device room that an iteration needs, beside what `footprint_by` counts and what is fetched, to rebuild a
/// request's K and V from hidden states on the device: in a layer that keeps none of its K and V, these while it
/// computes, and in a layer that gives up its states, these too, since a projection cannot write over what it reads.
/// What earlier layers need in addition is the states of later ones that give them up, less the K and V that those
/// get: nothing if states are smaller, so that the last layer decides.
[[nodiscard]] constexpr LayerBlocks rebuilding_room(const Holding& from, const Holding& to, TokenBlocks blocks,
                                                    Tokens block_tokens, HiddenSize hidden) {
  if (!from.states_on_device && !to.states_on_device) return LayerBlocks{0};
  const LayerSet had = from.states_on_device ? from.hidden : LayerSet{};
  const LayerSet given_up = to.states_on_device ? had - to.hidden : had;
  const LayerBlocks passing{to.head_blocks(blocks, block_tokens).count()};
  if (given_up.empty()) return to.nowhere.empty() ? LayerBlocks{0} : passing;
  const LayerBlocks states = hidden.layer_room(from.head_blocks(blocks, block_tokens), block_tokens);
  LayerBlocks room{0}, later{0}; // `later`: what the layers above still have beside what they will have
  for (int layer = (had | to.nowhere).highest(); layer >= 0; --layer) {
    const bool gives_up = given_up.contains(layer), away = to.away().contains(layer);
    room = std::max(room, later + (gives_up ? states : LayerBlocks{0}) + (away ? passing : LayerBlocks{0}));
    if (gives_up) later += states - (away ? LayerBlocks{0} : LayerBlocks{blocks.count()});
  }
  return room;
}

/// No groups: each layer keeps a block of every token block.
inline constexpr KvBlocks layers_alike{};
inline constexpr ReadLimits no_limits{};

/// What crosses the link when a request's residency changes.
struct Movement {
  LayerBlocks to_device{0};
  LayerBlocks to_host{0};

  friend constexpr Movement operator+(Movement a, Movement b) {
    return {a.to_device + b.to_device, a.to_host + b.to_host};
  }
};

/// The least that must move. Layers newly on the host are written out, except blocks with a clean copy there; layers
/// newly on the device are fetched; blocks in the right place stay; new copies are written. A layer that becomes
/// `nowhere` is dropped. One that was `nowhere` and becomes `host` is first rebuilt by an iteration, then written out.
/// If the head shrinks, the tokens that leave it become resident. Newly kept hidden states are written out, whether K
/// and V stay (`saved`) or not (`hidden`); a change between these two moves nothing, because the host has the states.
/// Hidden states that are no longer kept are dropped. Those on the device do not cross the link. `kv`: of layers that
/// keep different amounts.
[[nodiscard]] constexpr Movement movement(const Holding& from, const Holding& to, TokenBlocks blocks,
                                          Tokens block_tokens, int layers, HiddenSize hidden = {},
                                          const KvBlocks& kv = layers_alike) {
  const std::int64_t before = from.head_blocks(blocks, block_tokens).count();
  const std::int64_t after = to.head_blocks(blocks, block_tokens).count();
  const auto part = [&](std::int64_t first, std::int64_t last, LayerSet of) -> std::int64_t {
    if (!kv.empty()) return kv.room(first, last, blocks.count(), of);
    return std::max<std::int64_t>(0, last - first) * of.count();
  };
  const std::int64_t fetched = part(0, before, from.host - to.away()) + part(after, before, from.host & to.away());
  const std::int64_t written = part(0, after, to.host - from.host) + part(before, after, to.host & from.host);
  std::int64_t copied = 0; // copies written, less blocks that need no write because they have one
  const std::int64_t had = from.copied_blocks(blocks, block_tokens).count();
  const std::int64_t has = to.copied_blocks(blocks, block_tokens).count();
  if (had > 0 || has > 0) {
    copied -= part(0, std::min(had, after), to.host - from.away());
    const LayerSet here = LayerSet::all(layers) - to.away();
    copied +=
        part(had, has, here - from.away()) + part(before, has, here & from.host) + part(0, has, here & from.nowhere);
  }
  const LayerSet had_states = from.hidden_on_host(), has_states = to.hidden_on_host();
  const std::int64_t old_states = from.state_blocks(blocks, block_tokens).count();
  const std::int64_t new_states = to.state_blocks(blocks, block_tokens).count();
  std::int64_t states = new_states * (has_states - had_states - from.saved).count() +
                        std::max<std::int64_t>(0, new_states - old_states) * (has_states & had_states).count();
  if (!to.saved.empty())
    states += blocks.count() * (to.saved - from.saved - had_states).count() +
              (blocks.count() - old_states) * (to.saved & had_states).count();
  return {LayerBlocks{fetched}, LayerBlocks{written + copied} + hidden.room(states)};
}

} // namespace sluice
