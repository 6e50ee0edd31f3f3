// SPDX-License-Identifier: Apache-2.0
// KvStore: which block of which memory holds each block of K and V of each sequence, and what may be done with it.
#pragma once

#include "sluice/backend/machine/device_memory.hpp"
#include "sluice/backend/machine/placed_copy.hpp"
#include "sluice/core/units.hpp"
#include "sluice/memory/block_states.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {

/// One block of one sequence and layer, and where it is: nowhere at first, and again once it is released. It holds K
/// and V, or the hidden states of as many tokens as a block has room for.
struct KvCell {
  static constexpr std::int32_t nowhere = -1;

  std::int32_t device = nowhere; ///< its device block, if it has one
  std::int32_t host = nowhere;   ///< its host block, where the host alone has it
  std::int32_t tokens = 0;       ///< that have something in it
  std::int32_t copied = 0;       ///< of these, those that the device block's copy on the host has too
  bool passing = false;          ///< on the device for one layer of one iteration: its place is elsewhere
  bool queued = false;           ///< waits to be sent
  bool leaves = false;           ///< and is then no longer on the device
  bool awaited = false;          ///< a layer of the iteration under way needs it, and it is not there yet
  bool first = false;            ///< and so does the first layer
  bool hidden = false;           ///< hidden states are in it
  bool restores = false;         ///< and a layer of the iteration under way begins with them

  [[nodiscard]] bool on_device() const { return device != nowhere; }
  [[nodiscard]] bool on_host() const { return host != nowhere; }
  [[nodiscard]] bool exists() const { return on_device() || on_host(); }
};

/// The shape of a block: K and V of `tokens` tokens, as the decoder lays them out (`SequenceRows::blocks`).
struct KvBlockShape {
  std::int64_t runs = 0;        ///< of K and of V, one for each KV head
  std::int64_t token_bytes = 0; ///< of one token in one run
  std::int64_t tokens = 0;
  std::int64_t hidden_bytes = 0; ///< of one token's hidden state, as it enters a layer; 0: none are ever kept

  [[nodiscard]] std::int64_t run_bytes() const { return token_bytes * tokens; }
  [[nodiscard]] Bytes bytes() const { return Bytes{runs * run_bytes()}; }
  /// Tokens whose hidden states of a layer a block holds, one after the other: whole ones, so that blocks of both kinds
  /// are one size. 0: none are kept, since not even one fits.
  [[nodiscard]] std::int64_t hidden_tokens() const { return hidden_bytes > 0 ? bytes().count() / hidden_bytes : 0; }
};

/// Device blocks for the hidden states that iterations of up to `rows` rows and `batch` requests keep: those of a layer
/// that computes, and of one whose states cross the link meanwhile.
[[nodiscard]] inline LayerBlocks hidden_in_flight(const KvBlockShape& block, std::int64_t rows, int batch) {
  const std::int64_t each = block.hidden_tokens();
  return LayerBlocks{each == 0 ? 0 : 2 * ((rows + each - 1) / each + batch)}; // each request's last is not full
}

/// Blocks of two memories: `BlockStates` says what may be done with a block, this class which cell has it and what a
/// transfer copies. Blocks are numbers here: where their bytes lie is the device's business, so nothing here moves a
/// byte or waits. Operations that a state forbids do nothing and return false. Not synchronised.
///
/// Device blocks are taken from a budget that weights and buffers share, each when it is needed: memory that weights
/// give up becomes KV memory without a call. On the host there is room for as many blocks more as the device can hold:
/// what leaves the device needs a place before what arrives has left its own. The ledger that bounds what plans place
/// on the host bounds what stays there.
class KvStore {
 public:
  /// `host_blocks`: layer blocks that may stay on the host. `device_blocks`: how many there can ever be on the device.
  KvStore(KvBlockShape shape, DeviceMemory& device, LayerBlocks host_blocks, std::int64_t device_blocks)
      : shape_(shape),
        device_(&device),
        device_blocks_(static_cast<std::size_t>(device_blocks)),
        host_blocks_(host_blocks_for(host_blocks, device_blocks)),
        states_(device_blocks_, host_blocks_) {}

  /// Places on the host: for what may stay there, and for as much in flight as the device holds.
  [[nodiscard]] static std::size_t host_blocks_for(LayerBlocks staying, std::int64_t device_blocks) {
    return static_cast<std::size_t>(staying.count() + device_blocks);
  }

  [[nodiscard]] const KvBlockShape& shape() const { return shape_; }
  [[nodiscard]] BlockState state(const KvCell& cell) const {
    return cell.on_device() ? states_.state(block(cell)) : BlockState::empty;
  }
  /// The block can be read: nothing is arriving in it.
  [[nodiscard]] bool readable(const KvCell& cell) const {
    return cell.on_device() && state(cell) != BlockState::arriving && state(cell) != BlockState::empty;
  }
  /// The block can be appended to: nothing else reads or writes it.
  [[nodiscard]] bool writable(const KvCell& cell) const { return state(cell) == BlockState::filling; }
  /// How many numbers of blocks there are in each memory.
  [[nodiscard]] std::size_t device_blocks() const { return device_blocks_; }
  [[nodiscard]] std::size_t host_blocks() const { return host_blocks_; }
  /// What may be done with the device's blocks: for a device that keeps weights in them too.
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
  [[nodiscard]] bool take(KvCell& cell) {
    if (cell.exists() || !device_->take(shape_.bytes())) return false;
    const std::optional<std::size_t> taken = states_.take();
    if (!taken) {
      device_->give(shape_.bytes());
      return false;
    }
    cell.device = static_cast<std::int32_t>(*taken);
    return true;
  }
  bool seal(KvCell& cell) { return cell.on_device() && states_.seal(block(cell)); }
  /// Opens a block that was fetched before it was full, to be appended to.
  bool reopen(KvCell& cell) { return cell.on_device() && states_.reopen(block(cell)); }

  /// Begins to fetch a block that only the host has. Nothing where it is still being written there, or where no device
  /// block is free.
  [[nodiscard]] std::optional<PlacedCopy> fetch(KvCell& cell) {
    if (cell.on_device() || !cell.on_host() || !device_->take(shape_.bytes())) return std::nullopt;
    const auto host = static_cast<std::size_t>(cell.host);
    const std::optional<std::size_t> taken = states_.fetch(host);
    if (!taken) {
      device_->give(shape_.bytes());
      return std::nullopt;
    }
    cell.device = static_cast<std::int32_t>(*taken);
    cell.host = KvCell::nowhere;
    return whole(Way::to_device, cell, *taken, host);
  }
  /// Ends a fetch: the bytes are there. The block is clean, whether full or not.
  bool fetched(KvCell& cell) {
    cell.copied = cell.tokens;
    return states_.arrived(block(cell), true);
  }

  /// Opens a block of hidden states to be appended to: on the device, or beside what the host has of it, to which the
  /// new ones alone are then sent. False while the block is in a transfer, or where there is no room.
  [[nodiscard]] bool append(KvCell& cell) {
    if (cell.on_device()) {
      const BlockState now = state(cell);
      return now == BlockState::filling || (now == BlockState::clean && reopen(cell));
    }
    if (cell.on_host()) { // no byte is fetched: nothing reads them there
      if (host_busy(cell) || !fetch(cell)) return false;
      fetched(cell);
      return reopen(cell);
    }
    if (!has_place_for_hidden() || !take(cell)) return false;
    cell.hidden = true;
    return true;
  }
  /// Whatever is on the device has to find a place on the host when it leaves. The ledger counts hidden states by the
  /// byte, and here they have whole blocks, so that they may be more than the ledger knows.
  [[nodiscard]] bool has_place_for_hidden() const { return states_.host_used() + device_blocks_ < host_blocks_; }

  /// Begins to send a block to the host; `leaves`: it is then no longer on the device. Of a block that was fetched and
  /// appended to, only the new tokens are copied. `moved`: the copy; nothing where the block was clean or being sent.
  [[nodiscard]] bool send(KvCell& cell, bool leaves, std::optional<PlacedCopy>& moved) {
    moved.reset();
    if (!cell.on_device()) return false;
    const std::size_t at = block(cell);
    const BlockState before = states_.state(at);
    const std::optional<std::size_t> copy = states_.copy_of(at);
    if (!states_.send(at, leaves)) return false;
    if (before == BlockState::sending) return true; // only `leaves` was new
    if (before == BlockState::clean) {              // the host's copy is all that is left of it, at once
      cell.host = static_cast<std::int32_t>(*copy);
      cell.device = KvCell::nowhere;
      cell.copied = 0;
      device_->give(shape_.bytes());
      return true;
    }
    host_peak_ = std::max(host_peak_, host_used());
    const std::size_t host = *states_.copy_of(at);
    const std::int64_t right = copy ? cell.copied : 0;
    cell.copied = cell.tokens;
    moved = whole(Way::to_host, cell, at, host);
    if (right > 0 && cell.hidden) {
      moved->device_at = moved->host_at = right * shape_.hidden_bytes;
      moved->bytes -= moved->device_at;
    } else if (right > 0) {
      moved->device_at = moved->host_at = right * shape_.token_bytes;
      moved->bytes = (cell.tokens - right) * shape_.token_bytes;
      moved->rows = shape_.runs;
      moved->stride = shape_.run_bytes();
    }
    return true;
  }
  /// Ends a send: the bytes are there.
  bool sent(KvCell& cell) {
    const std::size_t at = block(cell);
    const std::optional<std::size_t> copy = states_.copy_of(at);
    if (!states_.sent(at)) return false;
    if (states_.state(at) != BlockState::empty) return true; // the block stays on the device
    cell.host = static_cast<std::int32_t>(*copy);
    cell.device = KvCell::nowhere;
    cell.copied = 0;
    device_->give(shape_.bytes());
    return true;
  }
  /// Ends a transfer of a block that belongs to no sequence any more.
  void ended_unwanted(std::size_t device_block, bool sending) {
    if (sending)
      states_.sent(device_block);
    else
      states_.arrived(device_block, true);
    device_->give(shape_.bytes());
  }

  /// Gives up the host's copy; the device's block stays.
  bool give_up_copy(KvCell& cell) {
    if (!cell.on_device() || !states_.give_up_copy(block(cell))) return false;
    cell.copied = 0;
    return true;
  }
  /// Releases the block: whatever it has is free, at once or when its transfer ends (`ended_unwanted`).
  void release(KvCell& cell) {
    if (cell.on_device()) {
      const BlockState before = state(cell);
      states_.free(block(cell));
      if (before != BlockState::sending && before != BlockState::arriving) device_->give(shape_.bytes());
    } else if (cell.on_host()) {
      states_.free_host(static_cast<std::size_t>(cell.host));
    }
    cell = KvCell{};
  }
  /// Whether the host's only copy is still being written or read.
  [[nodiscard]] bool host_busy(const KvCell& cell) const {
    const auto at = static_cast<std::size_t>(cell.host);
    return states_.host_read(at) || states_.host_written(at);
  }

 private:
  static std::size_t block(const KvCell& cell) { return static_cast<std::size_t>(cell.device); }
  /// The copy of all that a block holds: of K and V all bytes.
  [[nodiscard]] PlacedCopy whole(Way way, const KvCell& cell, std::size_t device, std::size_t host) const {
    PlacedCopy copy;
    copy.way = way;
    copy.device = {DevicePlace::Kind::kv_block, static_cast<std::int32_t>(device)};
    copy.host_block = static_cast<std::int32_t>(host);
    copy.bytes = cell.hidden ? cell.tokens * shape_.hidden_bytes : shape_.bytes().count();
    return copy;
  }

  KvBlockShape shape_;
  DeviceMemory* device_;
  std::size_t device_blocks_, host_blocks_;
  BlockStates states_;
  LayerBlocks host_peak_{0};
};

} // namespace sluice
