// SPDX-License-Identifier: Apache-2.0
// KvStore: what each block of each sequence takes of the two memories, and what a transfer copies.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/block.hpp"
#include "sluice/world/machine/block_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// The shape of a block: K and V of `tokens` tokens, as the decoder lays them out (`SequenceRows::blocks`), or a state.
struct KvBlockShape {
  std::int64_t runs = 0;        ///< of K and of V, one per KV head
  std::int64_t token_bytes = 0; ///< one token's in one run
  std::int64_t tokens = 0;
  std::int64_t hidden_bytes = 0; ///< one token's hidden state, as it enters a layer; 0: none are ever kept
  std::int64_t least_bytes = 0;  ///< a block has as many: room for a state (`DeltaRule`)

  [[nodiscard]] std::int64_t run_bytes() const { return token_bytes * tokens; }
  [[nodiscard]] Bytes bytes() const { return Bytes{std::max(runs * run_bytes(), least_bytes)}; }
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
        host_(host_blocks_for(host_blocks, device_blocks), BlockPool::Order::apart),
        shares_(host_.size()),
        leavers_(device_.size()) {}

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
  /// Blocks on the device that are to leave it: all of their holders give them up.
  [[nodiscard]] std::int64_t leaving() const { return leaving_; }
  [[nodiscard]] LayerBlocks device_used() const { return LayerBlocks{static_cast<std::int64_t>(device_.used())}; }
  [[nodiscard]] LayerBlocks host_used() const { return LayerBlocks{static_cast<std::int64_t>(host_.used())}; }
  [[nodiscard]] LayerBlocks host_peak() const { return host_peak_; }

  /// Something happens to a run of blocks: its next state, and its blocks in each memory, which are given back if the
  /// new state has none. (`take`, `fetch` and `send` below get blocks.)
  bool step(BlockRun& run, BlockEvent event) {
    const std::optional<BlockState> next = after(run.state, event);
    if (!next) return false;
    const BlockState before = run.state;
    run.state = *next;
    if (const int more = is_leaving(*next) - is_leaving(before); more != 0)
      add_leavers(range_of(run.device, run.count), more);
    if (event == BlockEvent::release && before.in_transfer()) {
      run = {run.first, run.count}; // `ended_unwanted` gives the blocks of both memories back
      return true;
    }
    if (before.on_device() && !next->on_device()) {
      give_device(range_of(run.device, run.count));
      run.device = BlockRun::nowhere;
    }
    if (before.has_host_place() && !next->has_host_place()) {
      give_host(range_of(run.host, run.count));
      run.host = BlockRun::nowhere;
      run.copied = 0;
    }
    if (event == BlockEvent::release) run = {run.first, run.count};
    return true;
  }

  /// Takes empty device blocks to fill, for up to `most` blocks of a run that is nowhere, from its first on:
  /// neighbours, next to the run before if that is possible. Returns how many.
  [[nodiscard]] std::int32_t take(BlockTable& table, std::size_t at, std::int64_t most) {
    if (table[at].exists()) return 0;
    most = std::min({most, std::int64_t{table[at].count}, free_blocks()});
    if (most <= 0) return 0;
    const BlockRun* const before = at > 0 && table[at - 1].on_device() ? &table[at - 1] : nullptr;
    const BlockRange taken =
        device_.take(static_cast<std::size_t>(most),
                     before == nullptr ? device_.size() : static_cast<std::size_t>(before->device + before->count));
    if (taken.count == 0) return 0;
    take_memory(taken.count);
    table.cut(table[at].first + static_cast<std::int64_t>(taken.count));
    table[at].device = static_cast<std::int32_t>(taken.first);
    step(table[at], BlockEvent::take);
    return table[at].count;
  }

  /// Takes an empty host block for a block that is nowhere, next to the block before it if that is possible. False: the
  /// host has no room, or the block exists.
  [[nodiscard]] bool take_on_host(BlockTable& table, std::int64_t block) {
    BlockRun& run = table.one(block);
    if (run.exists()) return false;
    const std::size_t at = table.find(block);
    const bool follows = at > 0 && table[at - 1].host != BlockRun::nowhere;
    const BlockRange place =
        host_.take(1, follows ? static_cast<std::size_t>(table[at - 1].host + table[at - 1].count) : host_.size());
    if (place.count == 0) return false;
    host_peak_ = std::max(host_peak_, host_used());
    run.host = static_cast<std::int32_t>(place.first);
    return step(run, BlockEvent::take_on_host);
  }

  /// Opens a block that only the host has for the host to append to; it then holds so many tokens. False: it is
  /// elsewhere, too, or nowhere.
  [[nodiscard]] bool append_on_host(BlockTable& table, std::int64_t block, std::int64_t tokens) {
    BlockRun& run = table.one(block);
    if (!step(run, BlockEvent::append_on_host)) return false;
    run.tokens = run.copied = static_cast<std::uint16_t>(tokens);
    return true;
  }

  /// Begins to fetch blocks, up to `most`, from the first of run `at` on, which only the host has: as many as are
  /// neighbours in both memories, and as have no copy to `join` behind the first. Returns how many; 0: no device block
  /// is free. `passes`: for one layer only. `hidden`: they hold hidden states, one block of which is a copy.
  [[nodiscard]] std::int32_t fetch(BlockTable& table, std::size_t at, std::int64_t most, bool passes, bool hidden,
                                   PlacedCopy& copy) {
    SLUICE_ASSERT(table[at].on_host(), "a block that only the host has");
    const std::int32_t first = table[at].first, host = table[at].host;
    most = std::min(hidden ? 1 : most, free_blocks());
    std::int64_t there = 0; // blocks that lie side by side on the host
    for (std::size_t run = at; run < table.runs().size() && there < most; ++run) {
      if (!table[run].on_host() || table[run].host != host + there) break;
      there += table[run].count;
    }
    most = std::min(most, there);
    if (most <= 0) return 0;
    for (std::int64_t i = 1; !copies_.empty() && i < most; ++i)
      if (copy_of(host + static_cast<std::int32_t>(i)) != BlockRun::nowhere) most = i;
    const BlockRange taken = device_.take(static_cast<std::size_t>(most));
    if (taken.count == 0) return 0;
    take_memory(taken.count);
    device_.set_moving(taken, true);
    const auto count = static_cast<std::int32_t>(taken.count);
    for (std::int32_t i = 0; !copies_.empty() && i < count; ++i)
      if (shares_[at_of(host + i)] > 0) {
        copies_[at_of(host + i)] = static_cast<std::int32_t>(taken.first) + i;
        sources_[taken.first + at_of(i)] = host + i;
      }
    table.each(first, first + count, [&](BlockRun& run) {
      run.device = static_cast<std::int32_t>(taken.first) + run.first - first;
      step(run, BlockEvent::fetch);
      if (passes) step(run, BlockEvent::pass);
    });
    copy = whole(Way::to_device, range_of(static_cast<std::int32_t>(taken.first), count), host);
    if (hidden) copy.bytes = table[at].tokens * shape_.hidden_bytes;
    return count;
  }
  /// A copy of these device blocks has ended. `arrived`, `sent` or `ended_unwanted` follows for each of them.
  void ended(const BlockRange& blocks) { device_.set_moving(blocks, false); }
  /// Another copy of these blocks is still under way, for another holder.
  void moves(const BlockRange& blocks) { device_.set_moving(blocks, true); }
  /// Ends a fetch: the bytes have arrived. The blocks are clean, full or not.
  bool arrived(BlockRun& run) {
    run.copied = run.tokens;
    return step(run, BlockEvent::arrived);
  }

  /// Opens a block of hidden states for appending: on the device, or as the continuation of a block on the host, to
  /// which only the new states are then sent. `stays`: it stays on the device. Returns false while the block is in a
  /// transfer, or without room.
  [[nodiscard]] bool append_hidden(BlockTable& table, std::int64_t block, bool stays = false) {
    BlockRun& run = table.one(block);
    const std::size_t at = table.find(block);
    if (run.on_host()) { // no byte is fetched: nothing on the device reads the old states
      PlacedCopy none;
      if (fetch(table, at, 1, true, true, none) == 0) return false;
      ended(range_of(run.device, 1));
      arrived(run);
    } else if (!run.exists() && ((!stays && !has_place_for_hidden()) || take(table, at, 1) == 0)) {
      return false;
    }
    return step(run, BlockEvent::append) && (stays || run.passes() || step(run, BlockEvent::pass));
  }
  /// Everything on the device needs a place on the host when it leaves. The ledger counts hidden states by the byte;
  /// here they take whole blocks, so there may be more than the ledger knows.
  [[nodiscard]] bool has_place_for_hidden() const { return host_.used() + kept_free_ + device_.size() < host_.size(); }

  /// Begins to send blocks, up to `most`, from the first of run `at` on, which is queued: as many as are neighbours in
  /// both memories. Of a block that was fetched and appended to, only the new tokens are copied. Returns how many.
  /// `hidden`: they hold hidden states, one block of which is a copy.
  [[nodiscard]] std::int32_t send(BlockTable& table, std::size_t at, std::int64_t most, bool hidden, PlacedCopy& copy) {
    SLUICE_ASSERT(after(table[at].state, BlockEvent::send), "a block that waits to be sent");
    const BlockRun first = table[at];
    const std::int64_t right = first.state.place == BlockPlace::ahead ? first.copied : 0;
    std::int32_t count = 1, host = first.host;
    if (first.state.place == BlockPlace::device) {
      std::int64_t there = 0; // blocks that lie side by side on the device
      for (std::size_t run = at; run < table.runs().size() && table[run].state == first.state; ++run) {
        if (table[run].device != first.device + there) break;
        there += table[run].count;
      }
      const bool follows = at > 0 && table[at - 1].host != BlockRun::nowhere;
      const BlockRange places =
          host_.take(static_cast<std::size_t>(std::min(hidden ? 1 : most, there)),
                     follows ? static_cast<std::size_t>(table[at - 1].host + table[at - 1].count) : host_.size());
      SLUICE_ASSERT(places.count > 0, "the host has a place for everything on the device");
      count = static_cast<std::int32_t>(places.count);
      host = static_cast<std::int32_t>(places.first);
      host_peak_ = std::max(host_peak_, host_used());
    }
    device_.set_moving(range_of(first.device, count), true);
    table.each(first.first, first.first + count, [&](BlockRun& run) {
      run.host = host + run.first - first.first;
      step(run, BlockEvent::send);
      run.copied = run.tokens;
    });
    copy = whole(Way::to_host, range_of(first.device, count), host);
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
  bool sent(BlockRun& run) { return step(run, BlockEvent::sent); }
  /// Ends a transfer of blocks that no longer belong to a sequence: of these numbers in each memory.
  void ended_unwanted(const BlockRange& device, const BlockRange& host) {
    give_device(device);
    give_host(host);
  }

  // Blocks that several sequences hold, because they have found them in the host tier (host_tier.hpp). They are full,
  // so nobody writes to them.
  // ---------------------------------------------------------------------------------------------

  /// The device block to which a block of the tier was copied, or is being copied; nowhere: none, or it has left.
  [[nodiscard]] std::int32_t copy_of(std::int32_t host) const {
    return copies_.empty() ? BlockRun::nowhere : copies_[at_of(host)];
  }
  /// Blocks that only the host has, up to `most`, from the first of run `at` on, get the device blocks of the tier's
  /// copies, as many as are neighbours there; the first one has a copy. They take no room. The state is that of a
  /// fetch: `arrived` follows, for each holder. Returns how many.
  [[nodiscard]] std::int32_t join(BlockTable& table, std::size_t at, std::int64_t most, bool passes) {
    SLUICE_ASSERT(table[at].on_host(), "a block that only the host has");
    const std::int32_t first = table[at].first, host = table[at].host, device = copy_of(host);
    most = std::min<std::int64_t>(most, table[at].count);
    std::int32_t count = 1;
    while (count < most && copy_of(host + count) == device + count) ++count;
    table.each(first, first + count, [&](BlockRun& run) {
      run.device = device;
      step(run, BlockEvent::fetch);
      if (passes) step(run, BlockEvent::pass);
    });
    for (std::int32_t i = 0; i < count; ++i) hold(device + i);
    return count;
  }
  /// How many of a run's device blocks no other sequence holds.
  [[nodiscard]] std::int64_t held_once(const BlockRun& run) const {
    if (copies_.empty()) return run.count;
    const auto first = device_shares_.begin() + run.device;
    return std::count(first, first + run.count, std::uint16_t{0});
  }
  /// A copy to these device blocks has failed: nobody else gets their content.
  void forget_copies(const BlockRange& blocks) {
    for (std::size_t block = blocks.first; !copies_.empty() && block < blocks.end(); ++block) forget_copy(block);
  }
  /// The device has moved a block's content to another one, which is taken; whoever held it holds that one now.
  void moved(std::size_t from, std::size_t to) {
    leavers_[to] = std::exchange(leavers_[from], 0);
    if (copies_.empty()) return;
    device_shares_[to] = std::exchange(device_shares_[from], 0);
    const std::int32_t host = std::exchange(sources_[from], BlockRun::nowhere);
    sources_[to] = host;
    if (host != BlockRun::nowhere) copies_[at_of(host)] = static_cast<std::int32_t>(to);
  }
  /// Blocks that are nowhere get the content of full host blocks, neighbours from `host` on, which from now on have one
  /// holder more.
  void share(BlockRun& run, std::int32_t host) {
    begin_sharing();
    for (std::int32_t i = 0; i < run.count; ++i)
      ++shares_[static_cast<std::size_t>(host) + static_cast<std::size_t>(i)];
    run.host = host;
    run.tokens = run.copied = static_cast<std::uint16_t>(shape_.tokens);
    step(run, BlockEvent::share);
  }
  /// Blocks that are nowhere are full device blocks, neighbours from `device` on, which from now on have one holder
  /// more.
  void share_on_device(BlockRun& run, std::int32_t device) {
    for (std::int32_t i = 0; i < run.count; ++i) hold(device + i);
    run.device = device;
    run.tokens = static_cast<std::uint16_t>(shape_.tokens);
    step(run, BlockEvent::take);
  }
  /// A full device block gets one holder more, which is no sequence and lets it stay.
  void hold(std::int32_t device) {
    begin_sharing();
    const bool left = leaves(at_of(device));
    ++device_shares_[at_of(device)];
    if (left && !leaves(at_of(device))) --leaving_;
  }
  /// That holder gives it up.
  void give_up(std::int32_t device) { give_device(range_of(device, 1)); }
  /// Takes an empty host block, `wanted` if that one is free. The host has room for everything that a tier holds.
  [[nodiscard]] std::int32_t take_host(std::int32_t wanted) {
    const BlockRange taken = host_.take(1, wanted < 0 ? host_.size() : static_cast<std::size_t>(wanted));
    SLUICE_ASSERT(taken.count == 1, "the host has a place for each block of its tier");
    return static_cast<std::int32_t>(taken.first);
  }
  /// One holder of a host block gives it up.
  void give_host(std::int32_t block) { give_host(range_of(block, 1)); }
  /// Host blocks that hidden states leave free, for a tier that is not full.
  void keep_free_on_host(std::int64_t blocks) { kept_free_ = static_cast<std::size_t>(blocks); }

 private:
  /// Without a tier and released blocks nothing is shared.
  void begin_sharing() {
    if (!copies_.empty()) return;
    copies_.assign(host_.size(), BlockRun::nowhere);
    sources_.assign(device_.size(), BlockRun::nowhere);
    device_shares_.assign(device_.size(), 0);
  }
  static int is_leaving(const BlockState& state) {
    return state.on_device() && state.intent == BlockIntent::leaves ? 1 : 0;
  }
  [[nodiscard]] bool leaves(std::size_t device) const {
    return leavers_[device] > (copies_.empty() ? 0 : device_shares_[device]);
  }
  /// One holder more (or, -1, fewer) of these device blocks is to leave them.
  void add_leavers(const BlockRange& blocks, int more) {
    for (std::size_t block = blocks.first; block < blocks.end(); ++block) {
      const bool left = leaves(block);
      leavers_[block] = static_cast<std::uint16_t>(leavers_[block] + more);
      leaving_ += int{leaves(block)} - int{left};
    }
  }
  [[nodiscard]] static BlockRange range_of(std::int32_t first, std::int32_t count) {
    return {static_cast<std::size_t>(first), static_cast<std::size_t>(count)};
  }
  void take_memory(std::size_t blocks) {
    [[maybe_unused]] const bool had = memory_->take(shape_.bytes() * static_cast<std::int64_t>(blocks));
    SLUICE_ASSERT(had, "the budget has a block's bytes for each of `free_blocks`");
  }
  [[nodiscard]] static std::size_t at_of(std::int32_t block) { return static_cast<std::size_t>(block); }
  /// One holder gives blocks up. Calls `freed(range)` for those that had no other.
  template <class Free>
  static void give_up(std::vector<std::uint16_t>& others, const BlockRange& range, const Free& freed) {
    for (std::size_t at = range.first; at < range.end();) {
      if (others[at] > 0) {
        --others[at++];
        continue;
      }
      std::size_t end = at + 1;
      while (end < range.end() && others[end] == 0) ++end;
      freed(BlockRange{at, end - at});
      at = end;
    }
  }
  void give_host(const BlockRange& range) {
    give_up(shares_, range, [this](const BlockRange& last) {
      for (std::size_t block = last.first; !copies_.empty() && block < last.end(); ++block)
        if (const std::int32_t copy = std::exchange(copies_[block], BlockRun::nowhere); copy != BlockRun::nowhere)
          sources_[at_of(copy)] = BlockRun::nowhere;
      host_.give(last);
    });
  }
  void give_device(const BlockRange& range) {
    const auto give = [this](const BlockRange& blocks) {
      device_.give(blocks);
      memory_->give(shape_.bytes() * static_cast<std::int64_t>(blocks.count));
    };
    if (copies_.empty()) return give(range);
    for (std::size_t block = range.first; block < range.end(); ++block) // those who stay may all be leaving
      if (device_shares_[block] > 0 && leavers_[block] == device_shares_[block]) ++leaving_;
    give_up(device_shares_, range, [&](const BlockRange& blocks) {
      forget_copies(blocks);
      give(blocks);
    });
  }
  void forget_copy(std::size_t device) {
    const std::int32_t host = std::exchange(sources_[device], BlockRun::nowhere);
    if (host != BlockRun::nowhere && copies_[at_of(host)] == static_cast<std::int32_t>(device))
      copies_[at_of(host)] = BlockRun::nowhere;
  }
  /// The copy of everything in neighbouring blocks; for K and V all of their bytes.
  [[nodiscard]] PlacedCopy whole(Way way, const BlockRange& device, std::int32_t host) const {
    PlacedCopy copy;
    copy.way = way;
    copy.device = {DevicePlace::Kind::kv_block, static_cast<std::int32_t>(device.first),
                   static_cast<std::int32_t>(device.count)};
    copy.host_block = host;
    copy.bytes = shape_.bytes().count() * copy.device.count;
    return copy;
  }

  KvBlockShape shape_;
  DeviceMemory* memory_;
  BlockPool device_, host_;
  std::vector<std::uint16_t> shares_;  ///< by host block: its holders but one
  std::vector<std::uint16_t> leavers_; ///< by device block: its holders that are to leave it
  // Empty until a sequence has found a block in the tier.
  std::vector<std::uint16_t> device_shares_; ///< the same by device block
  std::vector<std::int32_t> copies_;         ///< by host block of the tier: `copy_of`
  std::vector<std::int32_t> sources_;        ///< by device block: whose copy it is
  std::size_t kept_free_ = 0;
  std::int64_t leaving_ = 0;
  LayerBlocks host_peak_{0};
};

} // namespace sluice
