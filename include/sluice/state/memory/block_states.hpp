// SPDX-License-Identifier: Apache-2.0
// BlockStates: the life of each block of both memories, and what it allows. Backends that move real bytes use it.
#pragma once

#include "sluice/core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

namespace sluice {

/// The life of a device block.
enum class BlockState : std::uint8_t {
  empty,    ///< free for any request
  filling,  ///< its request appends to it
  full,     ///< never changes again; no copy on the host
  sending,  ///< the source of a transfer: not written, freed or sent again
  clean,    ///< full, and the host has a copy: can be freed at once
  arriving, ///< the destination of a transfer: not readable yet
  withheld, ///< holds weights instead of KV, if they share the memory
};

/// Device blocks, each with its host copy if it has one, and host blocks. No state lets a block be source and
/// destination of transfers at once, so the link's two directions need no coordination (SuperInfer, Fig. 13: eager
/// block rotation). An operation that a state forbids changes nothing and returns false or nothing.
///
/// Moves take time, so an eviction has two steps (`send`, then `sent` when the bytes have arrived), and so has a fetch
/// (`fetch`, `arrived`). `sent` frees a block that was given up during its transfer.
class BlockStates {
 public:
  using Block = std::size_t; ///< of either memory, from 0

  BlockStates(std::size_t device_blocks, std::size_t host_blocks) : device_(device_blocks), host_(host_blocks) {
    for (std::size_t i = device_blocks; i > 0; --i) free_device_.push_back(i - 1);
    for (std::size_t i = host_blocks; i > 0; --i) free_host_.push_back(i - 1);
  }

  [[nodiscard]] BlockState state(Block block) const { return device_[block].state; }
  /// Whether a host block is the source of a fetch now.
  [[nodiscard]] bool host_read(Block host) const { return host_[host].read; }
  /// Whether a host block is being written.
  [[nodiscard]] bool host_written(Block host) const { return host_[host].written; }
  [[nodiscard]] std::optional<Block> copy_of(Block block) const { return device_[block].copy; }
  [[nodiscard]] std::size_t device_used() const { return device_.size() - free_device_.size() - withheld_; }
  [[nodiscard]] std::size_t host_used() const { return host_.size() - free_host_.size(); }

  /// An empty block to fill, if there is one.
  [[nodiscard]] std::optional<Block> take() {
    if (free_device_.empty()) return std::nullopt;
    const Block block = pop(free_device_);
    device_[block].state = BlockState::filling;
    return block;
  }
  /// The block is full. Gives up a host copy that was made before that.
  bool seal(Block block) {
    if (!step(block, BlockState::filling, BlockState::full)) return false;
    if (device_[block].copy) drop_copy(block);
    return true;
  }
  /// Appends to a clean block that was not full when it was fetched. The block keeps its copy's place; the copy lacks
  /// the new tokens until the block is sent again.
  bool reopen(Block block) { return step(block, BlockState::clean, BlockState::filling); }

  /// Starts to copy a block to the host. With `leaves` its request has stopped, and the device block is freed when the
  /// bytes have arrived. Allowed for full blocks, and for one being filled if it leaves; needs a free host block. For a
  /// block in a transfer to the host, only `leaves` is recorded; a clean block is freed at once.
  bool send(Block block, bool leaves) {
    Device& one = device_[block];
    if (one.state == BlockState::sending && leaves && !one.leaves && !one.unwanted) {
      one.leaves = true;
      return true;
    }
    if (one.state == BlockState::clean && leaves) return leave(block);
    const bool may = one.state == BlockState::full || (one.state == BlockState::filling && leaves);
    if (!may || (!one.copy && free_host_.empty())) return false;
    if (!one.copy) one.copy = pop(free_host_);
    host_[*one.copy].written = true;
    one.state = BlockState::sending;
    one.leaves = leaves;
    return true;
  }
  /// The bytes have arrived.
  bool sent(Block block) {
    Device& one = device_[block];
    if (one.state != BlockState::sending) return false;
    host_[*one.copy].written = false;
    one.state = BlockState::clean;
    if (one.unwanted) return free(block);
    return one.leaves ? leave(block) : true;
  }

  /// Starts to fetch `host` into an empty device block, which keeps it as its copy.
  [[nodiscard]] std::optional<Block> fetch(Block host) {
    Host& one = host_[host];
    if (!one.alone || one.read || one.written || free_device_.empty()) return std::nullopt;
    const Block block = pop(free_device_);
    device_[block] = {BlockState::arriving, host, false, false};
    one.read = true;
    one.alone = false;
    return block;
  }
  /// The bytes have arrived. `full`: the block was full; a block that is not full gives up its copy.
  bool arrived(Block block, bool full) {
    Device& one = device_[block];
    if (one.state != BlockState::arriving) return false;
    host_[*one.copy].read = false;
    one.state = BlockState::clean;
    if (one.unwanted) return free(block);
    if (full) return true;
    drop_copy(block);
    one.state = BlockState::filling;
    return true;
  }

  /// Takes `count` empty blocks from `first` on out of use. False, with nothing changed, if one of them is not empty.
  bool withhold(Block first, std::size_t count) {
    const auto within = [&](Block block) { return block >= first && block < first + count; };
    for (Block block = first; block < first + count; ++block)
      if (device_[block].state != BlockState::empty) return false;
    std::erase_if(free_device_, within);
    for (Block block = first; block < first + count; ++block) device_[block].state = BlockState::withheld;
    withheld_ += count;
    return true;
  }
  /// Returns withheld blocks, which are then empty.
  void put_back(Block first, std::size_t count) {
    for (Block block = first + count; block-- > first;) {
      SLUICE_ASSERT(device_[block].state == BlockState::withheld, "a block that was withheld");
      give(block);
    }
    withheld_ -= count;
  }
  /// Moves a block to an empty one outside `from_first` .. + `from_count`, which replaces it from now on. Nothing if
  /// the block is in a transfer, or if there is no empty one.
  [[nodiscard]] std::optional<Block> relocate(Block block, Block from_first, std::size_t from_count) {
    const BlockState state = device_[block].state;
    if (state != BlockState::filling && state != BlockState::full && state != BlockState::clean) return std::nullopt;
    const auto outside = [&](Block one) { return one < from_first || one >= from_first + from_count; };
    const auto found = std::find_if(free_device_.rbegin(), free_device_.rend(), outside);
    if (found == free_device_.rend()) return std::nullopt;
    const Block to = *found;
    free_device_.erase(std::next(found).base());
    device_[to] = device_[block];
    give(block);
    return to;
  }

  /// Gives up the host copy of a clean block, or the copy's place of a reopened one.
  bool give_up_copy(Block block) {
    Device& one = device_[block];
    const bool reopened = one.state == BlockState::filling && one.copy.has_value();
    if (one.state != BlockState::clean && !reopened) return false;
    drop_copy(block);
    if (!reopened) one.state = BlockState::full;
    return true;
  }
  /// Frees a block and its copy, which no request needs any more; after its transfer if it is in one.
  bool free(Block block) {
    Device& one = device_[block];
    switch (one.state) {
    case BlockState::empty:
    case BlockState::withheld:
      return false;
    case BlockState::sending:
    case BlockState::arriving:
      one.unwanted = true;
      return true;
    case BlockState::filling:
    case BlockState::full:
    case BlockState::clean:
      break;
    }
    if (one.copy) drop_copy(block);
    return give(block);
  }
  /// The same for a block that is only on the host.
  bool free_host(Block host) {
    if (!host_[host].alone) return false;
    host_[host] = {};
    free_host_.push_back(host);
    return true;
  }

 private:
  struct Device {
    BlockState state = BlockState::empty;
    std::optional<Block> copy{};
    bool leaves = false;
    bool unwanted = false; ///< freed while it was in a transfer
  };
  struct Host {
    bool read = false;
    bool written = false;
    bool alone = false; ///< no other block holds its content
  };

  static Block pop(std::vector<Block>& blocks) {
    const Block last = blocks.back();
    blocks.pop_back();
    return last;
  }
  bool step(Block block, BlockState from, BlockState to) {
    if (device_[block].state != from) return false;
    device_[block].state = to;
    return true;
  }
  void drop_copy(Block block) {
    const Block host = *device_[block].copy;
    SLUICE_ASSERT(!host_[host].read && !host_[host].written, "no copy is given up while bytes move");
    host_[host] = {};
    free_host_.push_back(host);
    device_[block].copy.reset();
  }
  /// Only the copy remains; its holder knows the copy's number.
  bool leave(Block block) {
    host_[*device_[block].copy].alone = true;
    return give(block);
  }
  bool give(Block block) {
    device_[block] = {};
    free_device_.push_back(block);
    return true;
  }

  std::vector<Device> device_;
  std::vector<Host> host_;
  std::vector<Block> free_device_, free_host_;
  std::size_t withheld_ = 0;
};

} // namespace sluice
