// SPDX-License-Identifier: Apache-2.0
// KvStore: what each block of each sequence takes of the two memories, and what a transfer copies.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/machine/block.hpp"
#include "sluice/world/machine/block_pool.hpp"
#include "sluice/world/machine/copy.hpp"
#include "sluice/world/machine/device_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

/// The shape of a block: K and V of `tokens` tokens, as the decoder lays them out (`SequenceRows::blocks`).
struct KvBlockShape {
  std::int64_t runs = 0;        ///< of K and of V, one per KV head
  std::int64_t token_bytes = 0; ///< one token's in one run
  std::int64_t tokens = 0;
  std::int64_t hidden_bytes = 0; ///< one token's hidden state, as it enters a layer; 0: none are ever kept

  [[nodiscard]] std::int64_t run_bytes() const { return token_bytes * tokens; }
  [[nodiscard]] Bytes bytes() const { return Bytes{runs * run_bytes()}; }
  /// How many tokens' hidden states fit into a block, whole and one after the other: blocks of both kinds have one
  /// size. 0: none are kept, because not even one fits.
  [[nodiscard]] std::int64_t hidden_tokens() const { return hidden_bytes > 0 ? bytes().count() / hidden_bytes : 0; }
};

/// Device blocks for the hidden states that iterations of up to `rows` rows and `batch` requests keep: those of the
/// computing layer, and those of a layer whose states cross the link meanwhile.
[[nodiscard]] inline LayerBlocks hidden_in_flight(const KvBlockShape& block, std::int64_t rows, int batch) {
  const std::int64_t each = block.hidden_tokens();
  return LayerBlocks{each == 0 ? 0
                               : 2 * ((rows + each - 1) / each + batch)}; // each request's last block is partly empty
}

/// The blocks of two memories. `step` is the only way to another state, and keeps the accounts that follow from it:
/// which device and host blocks are taken, and how much memory. Blocks are numbers here: the device decides where their
/// bytes lie, so nothing here moves a byte or waits. What a state forbids does nothing and returns false. Not
/// synchronised.
///
/// Each device block is taken, when it is needed, from a budget that weights and buffers share: memory that weights
/// give up becomes KV memory without a call. The host has as many spare blocks as the device can hold, because a block
/// that leaves the device needs a place before the block that arrives has left its own. The ledger that bounds what
/// plans place on the host bounds what stays there.
class KvStore {
 public:
  /// `host_blocks`: layer blocks that may stay on the host. `device_blocks`: the most that can ever be on the device.
  KvStore(KvBlockShape shape, DeviceMemory& device, LayerBlocks host_blocks, std::int64_t device_blocks)
      : shape_(shape),
        memory_(&device),
        device_(static_cast<std::size_t>(device_blocks), BlockPool::Order::in_turn),
        host_(host_blocks_for(host_blocks, device_blocks), BlockPool::Order::lowest) {}

  /// Places on the host: for what may stay there, plus as much in flight as the device holds.
  [[nodiscard]] static std::size_t host_blocks_for(LayerBlocks staying, std::int64_t device_blocks) {
    return static_cast<std::size_t>(staying.count() + device_blocks);
  }

  [[nodiscard]] const KvBlockShape& shape() const { return shape_; }
  /// The device's blocks, for a device that keeps weights in them too.
  [[nodiscard]] BlockPool& device() { return device_; }
  [[nodiscard]] const BlockPool& device() const { return device_; }
  /// How many blocks are numbered in each memory.
  [[nodiscard]] std::size_t device_blocks() const { return device_.size(); }
  [[nodiscard]] std::size_t host_blocks() const { return host_.size(); }

  /// Device blocks that could be taken now.
  [[nodiscard]] std::int64_t free_blocks() const { return memory_->free() / shape_.bytes(); }
  /// Blocks on the device that are to leave it.
  [[nodiscard]] std::int64_t leaving() const { return leaving_; }
  [[nodiscard]] LayerBlocks device_used() const { return LayerBlocks{static_cast<std::int64_t>(device_.used())}; }
  [[nodiscard]] LayerBlocks host_used() const { return LayerBlocks{static_cast<std::int64_t>(host_.used())}; }
  [[nodiscard]] LayerBlocks host_peak() const { return host_peak_; }

  /// Something happens to a block: its next state, and its blocks in each memory, which are given back if the new state
  /// has none. (`take`, `fetch` and `send` below get blocks.)
  bool step(KvBlock& entry, BlockEvent event) {
    const std::optional<BlockState> next = after(entry.state, event);
    if (!next) return false;
    const BlockState before = entry.state;
    entry.state = *next;
    leaving_ += is_leaving(*next) - is_leaving(before);
    if (event == BlockEvent::release && before.in_transfer()) {
      entry = {}; // `ended_unwanted` gives both blocks back
      return true;
    }
    if (before.on_device() && !next->on_device()) {
      give_device({static_cast<std::size_t>(entry.device), 1});
      entry.device = KvBlock::nowhere;
    }
    if (before.has_host_place() && !next->has_host_place()) {
      host_.give({static_cast<std::size_t>(entry.host), 1});
      entry.host = KvBlock::nowhere;
      entry.copied = 0;
    }
    if (event == BlockEvent::release) entry = {};
    return true;
  }

  /// Takes an empty device block to fill, next to `before` if that one is free.
  [[nodiscard]] bool take(KvBlock& entry, const KvBlock* before = nullptr) {
    if (entry.exists() || !memory_->take(shape_.bytes())) return false;
    const std::size_t wanted =
        before == nullptr || !before->on_device() ? device_.size() : static_cast<std::size_t>(before->device) + 1;
    const BlockRange taken = device_.take(1, wanted);
    if (taken.count == 0) {
      memory_->give(shape_.bytes());
      return false;
    }
    entry.device = static_cast<std::int32_t>(taken.first);
    return step(entry, BlockEvent::take);
  }

  /// Begins to fetch the first of `entries`, which only the host has, and as many of the blocks behind it as are
  /// neighbours in both memories. Returns how many; 0: no device block is free. `passes`: for one layer only. `hidden`:
  /// they hold hidden states.
  [[nodiscard]] std::size_t fetch(std::span<KvBlock> entries, bool passes, bool hidden, PlacedCopy& copy) {
    SLUICE_ASSERT(entries[0].on_host(), "a block that only the host has");
    std::size_t most = 1;
    while (most < entries.size() && !hidden && entries[most].on_host() &&
           entries[most].host == entries[0].host + static_cast<std::int32_t>(most))
      ++most;
    most = std::min(most, static_cast<std::size_t>(std::max<std::int64_t>(0, free_blocks())));
    const BlockRange taken = device_.take(most);
    if (taken.count == 0) return 0;
    [[maybe_unused]] const bool had = memory_->take(shape_.bytes() * static_cast<std::int64_t>(taken.count));
    SLUICE_ASSERT(had, "the schedule alone takes device memory while anything runs");
    device_.set_moving(taken, true);
    const BlockState fetched = *after(entries[0].state, BlockEvent::fetch); // the same for all: only the host has them
    const BlockState begun = passes ? *after(fetched, BlockEvent::pass) : fetched;
    for (std::size_t i = 0; i < taken.count; ++i) {
      entries[i].device = static_cast<std::int32_t>(taken.first + i);
      entries[i].state = begun;
    }
    copy = whole(Way::to_device, entries.first(taken.count));
    if (hidden) copy.bytes = entries[0].tokens * shape_.hidden_bytes;
    return taken.count;
  }
  /// A copy of these device blocks has ended. `arrived`, `sent` or `ended_unwanted` follows for each of them.
  void ended(const BlockRange& blocks) { device_.set_moving(blocks, false); }
  /// Ends a fetch: the bytes have arrived. The block is clean, full or not.
  bool arrived(KvBlock& entry) {
    entry.copied = entry.tokens;
    return step(entry, BlockEvent::arrived);
  }

  /// Evicts blocks of K and V of which the host has everything: `entries` from the first on, as many as there are.
  /// Returns how many.
  std::size_t leave(std::span<KvBlock> entries) {
    std::size_t count = 0;
    BlockRange given;
    while (count < entries.size() && entries[count].clean()) {
      KvBlock& entry = entries[count++];
      if (static_cast<std::size_t>(entry.device) != given.end() || given.count == 0) {
        if (given.count > 0) give_device(given);
        given = {static_cast<std::size_t>(entry.device), 0};
      }
      ++given.count;
      entry.state = *after(entry.state, BlockEvent::evict);
      entry.device = KvBlock::nowhere;
    }
    if (given.count > 0) give_device(given);
    return count;
  }

  /// Opens a block of hidden states for appending: on the device, or as the continuation of a block on the host, to
  /// which only the new states are then sent. Returns false while the block is in a transfer, or without room.
  [[nodiscard]] bool append_hidden(KvBlock& entry) {
    if (entry.on_host()) { // no byte is fetched: nothing on the device reads the old states
      PlacedCopy none;
      if (fetch({&entry, 1}, true, true, none) == 0) return false;
      ended({static_cast<std::size_t>(entry.device), 1});
      arrived(entry);
    } else if (!entry.exists() && (!has_place_for_hidden() || !take(entry))) {
      return false;
    }
    return step(entry, BlockEvent::append) && (entry.passes() || step(entry, BlockEvent::pass));
  }
  /// Everything on the device needs a place on the host when it leaves. The ledger counts hidden states by the byte;
  /// here they take whole blocks, so there may be more than the ledger knows.
  [[nodiscard]] bool has_place_for_hidden() const { return host_.used() + device_.size() < host_.size(); }

  /// Begins to send the first of `entries`, which is queued, and as many of the blocks behind it as are neighbours in
  /// both memories. Of a block that was fetched and appended to, only the new tokens are copied. Returns how many.
  /// `hidden`: they hold hidden states.
  [[nodiscard]] std::size_t send(std::span<KvBlock> entries, bool hidden, PlacedCopy& copy) {
    KvBlock& first = entries[0];
    SLUICE_ASSERT(after(first.state, BlockEvent::send), "a block that waits to be sent");
    const std::int64_t right = first.state.place == BlockPlace::ahead ? first.copied : 0;
    std::size_t count = 1;
    if (first.state.place == BlockPlace::device) {
      while (count < entries.size() && !hidden && entries[count].state == first.state &&
             entries[count].device == first.device + static_cast<std::int32_t>(count))
        ++count;
      const BlockRange places = host_.take(count);
      SLUICE_ASSERT(places.count > 0, "the host has a place for everything on the device");
      count = places.count;
      for (std::size_t i = 0; i < count; ++i) entries[i].host = static_cast<std::int32_t>(places.first + i);
      host_peak_ = std::max(host_peak_, host_used());
    }
    device_.set_moving({static_cast<std::size_t>(first.device), count}, true);
    for (std::size_t i = 0; i < count; ++i) {
      step(entries[i], BlockEvent::send);
      entries[i].copied = entries[i].tokens;
    }
    copy = whole(Way::to_host, entries.first(count));
    if (hidden) {
      copy.device_at = copy.host_at = right * shape_.hidden_bytes;
      copy.bytes = (first.tokens - right) * shape_.hidden_bytes;
    } else if (right > 0) {
      copy.device_at = copy.host_at = right * shape_.token_bytes;
      copy.bytes = (first.tokens - right) * shape_.token_bytes;
      copy.rows = shape_.runs;
      copy.stride = shape_.run_bytes();
    }
    return count;
  }
  /// Ends a send: the bytes have arrived.
  bool sent(KvBlock& entry) { return step(entry, BlockEvent::sent); }
  /// Ends a transfer of a block that no longer belongs to a sequence: of these numbers in each memory.
  void ended_unwanted(std::size_t device_block, std::size_t host_block) {
    give_device({device_block, 1});
    host_.give({host_block, 1});
  }

 private:
  static std::int64_t is_leaving(const BlockState& state) {
    return state.on_device() && state.intent == BlockIntent::leaves ? 1 : 0;
  }
  void give_device(const BlockRange& range) {
    device_.give(range);
    memory_->give(shape_.bytes() * static_cast<std::int64_t>(range.count));
  }
  /// The copy of everything in neighbouring blocks; for K and V all of their bytes.
  [[nodiscard]] PlacedCopy whole(Way way, std::span<const KvBlock> entries) const {
    PlacedCopy copy;
    copy.way = way;
    copy.device = {DevicePlace::Kind::kv_block, entries[0].device, static_cast<std::int32_t>(entries.size())};
    copy.host_block = entries[0].host;
    copy.bytes = shape_.bytes().count() * copy.device.count;
    return copy;
  }

  KvBlockShape shape_;
  DeviceMemory* memory_;
  BlockPool device_, host_;
  std::int64_t leaving_ = 0;
  LayerBlocks host_peak_{0};
};

} // namespace sluice
