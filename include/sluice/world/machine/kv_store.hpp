// SPDX-License-Identifier: Apache-2.0
// KvStore: which block of which memory holds each block of each sequence, and what may be done with it.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/memory/block_states.hpp"
#include "sluice/world/machine/copy.hpp"
#include "sluice/world/machine/device_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {

/// An entry of a block table: one block of one sequence and layer, and where it is. It is nowhere at first and after
/// release. It holds K and V, or the hidden states of as many tokens as fit.
struct KvBlock {
  static constexpr std::int32_t nowhere = -1;

  std::int32_t device = nowhere; ///< its device block, if it has one
  std::int32_t host = nowhere;   ///< its host block, if only the host has it
  std::int32_t tokens = 0;       ///< that it holds something of
  std::int32_t copied = 0;       ///< how many of them the host's copy of a device block has too
  bool passing = false;          ///< on the device only while one layer of one iteration computes
  bool queued = false;           ///< waits to be sent
  bool leaves = false;           ///< will no longer be on the device after that
  bool awaited = false;          ///< a layer of this iteration needs it, and it has not arrived
  bool first = false;            ///< the first layer waits for it too
  bool hidden = false;           ///< holds hidden states
  bool restores = false;         ///< a layer of this iteration starts from them

  [[nodiscard]] bool on_device() const { return device != nowhere; }
  [[nodiscard]] bool on_host() const { return host != nowhere; }
  [[nodiscard]] bool exists() const { return on_device() || on_host(); }
};

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

/// The blocks of two memories: `BlockStates` knows what may be done with a block; this class knows which table entry
/// has it, and what a transfer copies. Blocks are numbers here: the device decides where their bytes lie, so nothing
/// here moves a byte or waits. Operations that a state forbids do nothing and return false. Not synchronised.
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
        device_(&device),
        device_blocks_(static_cast<std::size_t>(device_blocks)),
        host_blocks_(host_blocks_for(host_blocks, device_blocks)),
        states_(device_blocks_, host_blocks_) {}

  /// Places on the host: for what may stay there, plus as much in flight as the device holds.
  [[nodiscard]] static std::size_t host_blocks_for(LayerBlocks staying, std::int64_t device_blocks) {
    return static_cast<std::size_t>(staying.count() + device_blocks);
  }

  [[nodiscard]] const KvBlockShape& shape() const { return shape_; }
  [[nodiscard]] BlockState state(const KvBlock& entry) const {
    return entry.on_device() ? states_.state(block(entry)) : BlockState::empty;
  }
  /// Whether the block can be read: nothing is arriving in it.
  [[nodiscard]] bool readable(const KvBlock& entry) const {
    return entry.on_device() && state(entry) != BlockState::arriving && state(entry) != BlockState::empty;
  }
  /// Whether the block can be appended to: nothing else reads or writes it.
  [[nodiscard]] bool writable(const KvBlock& entry) const { return state(entry) == BlockState::filling; }
  /// How many blocks are numbered in each memory.
  [[nodiscard]] std::size_t device_blocks() const { return device_blocks_; }
  [[nodiscard]] std::size_t host_blocks() const { return host_blocks_; }
  /// The states of the device's blocks, for a device that keeps weights in them too.
  [[nodiscard]] BlockStates& states() { return states_; }
  [[nodiscard]] const BlockStates& states() const { return states_; }

  /// Device blocks that could be taken now.
  [[nodiscard]] std::int64_t free_blocks() const { return device_->free() / shape_.bytes(); }
  [[nodiscard]] LayerBlocks host_used() const { return LayerBlocks{static_cast<std::int64_t>(states_.host_used())}; }
  [[nodiscard]] LayerBlocks host_peak() const { return host_peak_; }
  [[nodiscard]] LayerBlocks device_used() const {
    return LayerBlocks{static_cast<std::int64_t>(states_.device_used())};
  }

  /// Takes an empty device block to fill.
  [[nodiscard]] bool take(KvBlock& entry) {
    if (entry.exists() || !device_->take(shape_.bytes())) return false;
    const std::optional<std::size_t> taken = states_.take();
    if (!taken) {
      device_->give(shape_.bytes());
      return false;
    }
    entry.device = static_cast<std::int32_t>(*taken);
    return true;
  }
  bool seal(KvBlock& entry) { return entry.on_device() && states_.seal(block(entry)); }
  /// Opens a block that was fetched before it was full, so that it can be appended to.
  bool reopen(KvBlock& entry) { return entry.on_device() && states_.reopen(block(entry)); }

  /// Begins to fetch a block that only the host has. Returns nothing if it is still being written there, or if no
  /// device block is free.
  [[nodiscard]] std::optional<PlacedCopy> fetch(KvBlock& entry) {
    if (entry.on_device() || !entry.on_host() || !device_->take(shape_.bytes())) return std::nullopt;
    const auto host = static_cast<std::size_t>(entry.host);
    const std::optional<std::size_t> taken = states_.fetch(host);
    if (!taken) {
      device_->give(shape_.bytes());
      return std::nullopt;
    }
    entry.device = static_cast<std::int32_t>(*taken);
    entry.host = KvBlock::nowhere;
    return whole(Way::to_device, entry, *taken, host);
  }
  /// Ends a fetch: the bytes have arrived. The block is clean, full or not.
  bool fetched(KvBlock& entry) {
    entry.copied = entry.tokens;
    return states_.arrived(block(entry), true);
  }

  /// Opens a block of hidden states for appending: on the device, or as the continuation of a block on the host, to
  /// which only the new states are then sent. Returns false while the block is in a transfer, or without room.
  [[nodiscard]] bool append(KvBlock& entry) {
    if (entry.on_device()) {
      const BlockState now = state(entry);
      return now == BlockState::filling || (now == BlockState::clean && reopen(entry));
    }
    if (entry.on_host()) { // no byte is fetched: nothing on the device reads the old states
      if (host_busy(entry) || !fetch(entry)) return false;
      fetched(entry);
      return reopen(entry);
    }
    if (!has_place_for_hidden() || !take(entry)) return false;
    entry.hidden = true;
    return true;
  }
  /// Everything on the device needs a place on the host when it leaves. The ledger counts hidden states by the byte;
  /// here they take whole blocks, so there may be more than the ledger knows.
  [[nodiscard]] bool has_place_for_hidden() const { return states_.host_used() + device_blocks_ < host_blocks_; }

  /// Begins to send a block to the host; `leaves`: it then leaves the device. Of a block that was fetched and appended
  /// to, only the new tokens are copied. `moved`: the copy; nothing if the block was clean or already being sent.
  [[nodiscard]] bool send(KvBlock& entry, bool leaves, std::optional<PlacedCopy>& moved) {
    moved.reset();
    if (!entry.on_device()) return false;
    const std::size_t at = block(entry);
    const BlockState before = states_.state(at);
    const std::optional<std::size_t> copy = states_.copy_of(at);
    if (!states_.send(at, leaves)) return false;
    if (before == BlockState::sending) return true; // only `leaves` was new
    if (before == BlockState::clean) {              // only the host's copy remains, at once
      entry.host = static_cast<std::int32_t>(*copy);
      entry.device = KvBlock::nowhere;
      entry.copied = 0;
      device_->give(shape_.bytes());
      return true;
    }
    host_peak_ = std::max(host_peak_, host_used());
    const std::size_t host = *states_.copy_of(at);
    const std::int64_t right = copy ? entry.copied : 0;
    entry.copied = entry.tokens;
    moved = whole(Way::to_host, entry, at, host);
    if (right > 0 && entry.hidden) {
      moved->device_at = moved->host_at = right * shape_.hidden_bytes;
      moved->bytes -= moved->device_at;
    } else if (right > 0) {
      moved->device_at = moved->host_at = right * shape_.token_bytes;
      moved->bytes = (entry.tokens - right) * shape_.token_bytes;
      moved->rows = shape_.runs;
      moved->stride = shape_.run_bytes();
    }
    return true;
  }
  /// Ends a send: the bytes have arrived.
  bool sent(KvBlock& entry) {
    const std::size_t at = block(entry);
    const std::optional<std::size_t> copy = states_.copy_of(at);
    if (!states_.sent(at)) return false;
    if (states_.state(at) != BlockState::empty) return true; // the block stays on the device
    entry.host = static_cast<std::int32_t>(*copy);
    entry.device = KvBlock::nowhere;
    entry.copied = 0;
    device_->give(shape_.bytes());
    return true;
  }
  /// Ends a transfer of a block that no longer belongs to a sequence.
  void ended_unwanted(std::size_t device_block, bool sending) {
    if (sending)
      states_.sent(device_block);
    else
      states_.arrived(device_block, true);
    device_->give(shape_.bytes());
  }

  /// Gives up the host's copy; the device's block stays.
  bool give_up_copy(KvBlock& entry) {
    if (!entry.on_device() || !states_.give_up_copy(block(entry))) return false;
    entry.copied = 0;
    return true;
  }
  /// Releases the block: its memory is free at once, or when its transfer ends (`ended_unwanted`).
  void release(KvBlock& entry) {
    if (entry.on_device()) {
      const BlockState before = state(entry);
      states_.free(block(entry));
      if (before != BlockState::sending && before != BlockState::arriving) device_->give(shape_.bytes());
    } else if (entry.on_host()) {
      states_.free_host(static_cast<std::size_t>(entry.host));
    }
    entry = KvBlock{};
  }
  /// Whether the host's only copy is still being written or read.
  [[nodiscard]] bool host_busy(const KvBlock& entry) const {
    const auto at = static_cast<std::size_t>(entry.host);
    return states_.host_read(at) || states_.host_written(at);
  }

 private:
  static std::size_t block(const KvBlock& entry) { return static_cast<std::size_t>(entry.device); }
  /// The copy of everything in a block; for K and V all of its bytes.
  [[nodiscard]] PlacedCopy whole(Way way, const KvBlock& entry, std::size_t device, std::size_t host) const {
    PlacedCopy copy;
    copy.way = way;
    copy.device = {DevicePlace::Kind::kv_block, static_cast<std::int32_t>(device)};
    copy.host_block = static_cast<std::int32_t>(host);
    copy.bytes = entry.hidden ? entry.tokens * shape_.hidden_bytes : shape_.bytes().count();
    return copy;
  }

  KvBlockShape shape_;
  DeviceMemory* device_;
  std::size_t device_blocks_, host_blocks_;
  BlockStates states_;
  LayerBlocks host_peak_{0};
};

} // namespace sluice
