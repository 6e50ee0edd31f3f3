// SPDX-License-Identifier: Apache-2.0
// Arena: one memory cut into blocks; weights have ranges of blocks, KV has any single ones.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/block_pool.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// Where homes and slots of weights lie among the blocks. A layer's weights that are lent out are an ordinary range of
/// blocks; to take them back, the KV in that range moves to other blocks by copies on the device, and the block tables
/// are updated.
///
/// Rejected: mapping pages (cuMemMap), so that KV need not move: a call takes longer than copying a block, and a stream
/// cannot order it.
class Arena {
 public:
  explicit Arena(MachineCore& core) : core_(&core), block_(core.store.shape().bytes().count()) {}

  /// The blocks of a place; for a home or a slot the range that it has now.
  [[nodiscard]] BlockRange range(const DevicePlace& place) const {
    if (place.kind == DevicePlace::Kind::kv_block)
      return {static_cast<std::size_t>(place.index), static_cast<std::size_t>(place.count)};
    const std::vector<BlockRange>& ranges = ranges_[list_of(place)];
    const auto at = static_cast<std::size_t>(place.index);
    return at < ranges.size() ? ranges[at] : BlockRange{};
  }

  /// Finds blocks for the first `bytes` of a place: its own and those behind them, or a new range, which then holds
  /// nothing. `relocate(from, to)` copies a block. Fails if a block in the way is in a transfer; the budget guarantees
  /// enough free blocks.
  template <class Relocate>
  [[nodiscard]] WeightStore::Taken take(const DevicePlace& place, std::int64_t bytes, const Relocate& relocate) {
    knows_holders_ = false;
    BlockRange& mine = own(place);
    const std::size_t wanted = blocks(bytes);
    if (mine.count >= wanted) return WeightStore::Taken::more;
    if (mine.count > 0 && empty({mine.end(), wanted - mine.count}, relocate)) {
      mine.count = wanted;
      return WeightStore::Taken::more;
    }
    const bool had = mine.count > 0;
    if (had) { // rare: the plan streams another share of each layer. Moving both parts would need room for both.
      if (any_in_transfer(0)) return WeightStore::Taken::none;
      core_->store.device().put_back(mine);
      mine = {};
    }
    std::optional<BlockRange> range = cheapest(wanted);
    if (!range && compact(relocate)) range = cheapest(wanted);
    if (!range || !empty(*range, relocate)) {
      SLUICE_ASSERT(!had, "nothing is in a transfer, and the budget has as many blocks");
      return WeightStore::Taken::none;
    }
    mine = *range;
    return WeightStore::Taken::anew;
  }
  /// Gives a place that has nothing these blocks. False, with nothing changed, if one of them is not free.
  [[nodiscard]] bool reuse(const DevicePlace& place, const BlockRange& range) {
    if (!core_->store.device().withhold(range)) return false;
    own(place) = range;
    return true;
  }
  /// The place keeps its first `bytes`.
  void keep(const DevicePlace& place, std::int64_t bytes) {
    BlockRange& mine = own(place);
    const std::size_t kept = std::min(blocks(bytes), mine.count);
    if (mine.count > kept) core_->store.device().put_back({mine.first + kept, mine.count - kept});
    mine.count = kept;
  }

 private:
  struct Holder {
    BlockTable* table = nullptr;
    std::int32_t block = 0;         ///< its number in the table
    KvSequence* sequence = nullptr; ///< null: it has departed
    std::int32_t next = -1;         ///< another holder of the same device block
  };

  [[nodiscard]] std::size_t blocks(std::int64_t bytes) const {
    return static_cast<std::size_t>((bytes + block_ - 1) / block_);
  }
  static std::size_t list_of(const DevicePlace& place) {
    SLUICE_ASSERT(place.kind != DevicePlace::Kind::kv_block, "a home or a slot");
    return place.kind == DevicePlace::Kind::home ? 0 : 1;
  }
  BlockRange& own(const DevicePlace& place) {
    std::vector<BlockRange>& ranges = ranges_[list_of(place)];
    const auto at = static_cast<std::size_t>(place.index);
    if (at >= ranges.size()) ranges.resize(at + 1);
    return ranges[at];
  }
  /// Whether a block from `first` on is in a transfer, and so cannot be moved.
  [[nodiscard]] bool any_in_transfer(std::size_t first) const {
    for (std::size_t block = first; block < core_->store.device_blocks(); ++block)
      if (core_->store.device().is_moving(block)) return true;
    return false;
  }

  [[nodiscard]] bool is_withheld(std::size_t block) const { return core_->store.device().is_withheld(block); }

  /// Moves KV out of a range and withholds the range from KV.
  template <class Relocate>
  [[nodiscard]] bool empty(const BlockRange& range, const Relocate& relocate) {
    BlockPool& pool = core_->store.device();
    if (range.end() > pool.size()) return false;
    std::size_t in_use = 0;
    for (std::size_t block = range.first; block < range.end(); ++block) {
      if (pool.is_moving(block) || pool.is_withheld(block)) return false;
      if (!pool.is_free(block)) ++in_use;
    }
    if (in_use > 0) move_out(range, relocate);
    [[maybe_unused]] const bool withheld = pool.withhold(range);
    SLUICE_ASSERT(withheld, "the budget has as many free blocks as the range and what was in it");
    return withheld;
  }
  template <class Relocate>
  void move_out(const BlockRange& range, const Relocate& relocate) {
    find_holders();
    BlockPool& pool = core_->store.device();
    for (std::size_t block = range.first; block < range.end(); ++block) {
      if (pool.is_free(block)) continue;
      const std::optional<std::size_t> to = pool.take_outside(range);
      SLUICE_ASSERT(to.has_value(), "a free block outside of the range");
      relocate(block, *to);
      first_holders_[*to] = std::exchange(first_holders_[block], -1);
      SLUICE_ASSERT(first_holders_[*to] >= 0, "a block in use, and in no transfer, is in a block table");
      for (std::int32_t at = first_holders_[*to]; at >= 0; at = holders_[static_cast<std::size_t>(at)].next) {
        const Holder& holder = holders_[static_cast<std::size_t>(at)];
        holder.table->one(holder.block).device = static_cast<std::int32_t>(*to);
        if (holder.sequence != nullptr) std::fill(holder.sequence->known.begin(), holder.sequence->known.end(), 0);
      }
      core_->store.moved(block, *to);
      pool.give({block, 1});
    }
  }
  /// Finds which tables use each block, once per `take`: a compaction moves blocks one by one, and there are many
  /// entries.
  void find_holders() {
    if (std::exchange(knows_holders_, true)) return;
    holders_.clear();
    first_holders_.assign(core_->store.device_blocks(), -1);
    const auto add = [this](BlockTable& table, KvSequence* sequence) {
      for (const BlockRun& run : table.runs())
        for (std::int32_t i = 0; run.on_device() && i < run.count; ++i) {
          std::int32_t& first = first_holders_[static_cast<std::size_t>(run.device) + static_cast<std::size_t>(i)];
          holders_.push_back({&table, run.first + i, sequence, first});
          first = static_cast<std::int32_t>(holders_.size()) - 1;
        }
    };
    core_->sequences.for_each([&add](Slot, KvSequence& sequence) {
      for (BlockTable& table : sequence.tables) add(table, &sequence);
    });
    for (DepartedSequence& departed : core_->sequences.departed())
      for (BlockTable& table : departed.tables) add(table, nullptr);
  }
  /// Moves all weights to the end of the arena: after plans that streamed other shares, the gaps between weights are
  /// too small for anything. Returns false, with nothing moved, if KV between them is in a transfer.
  template <class Relocate>
  bool compact(const Relocate& relocate) {
    std::vector<BlockRange*> ranges;
    for (std::vector<BlockRange>& all : ranges_)
      for (BlockRange& range : all)
        if (range.count > 0) ranges.push_back(&range);
    if (ranges.empty()) return false;
    std::sort(ranges.begin(), ranges.end(), [](const auto* a, const auto* b) { return a->first > b->first; });
    if (any_in_transfer(ranges.back()->first)) return false;
    std::size_t end = core_->store.device_blocks();
    for (BlockRange* range : ranges) {
      for (std::size_t i = range->count; i-- > 0;) { // from its end, because the range may overlap its destination
        const std::size_t from = range->first + i, to = --end;
        if (from == to) continue;
        [[maybe_unused]] const bool cleared = empty({to, 1}, relocate);
        SLUICE_ASSERT(cleared, "between weights is KV alone");
        relocate(from, to);
        core_->store.device().put_back({from, 1});
      }
      range->first = end;
    }
    return true;
  }
  /// The range without weights that has the fewest blocks in use; among equals the last, so that weights gather at the
  /// end.
  [[nodiscard]] std::optional<BlockRange> cheapest(std::size_t wanted) const {
    const std::size_t all = core_->store.device_blocks();
    std::optional<BlockRange> best;
    std::size_t least = all + 1;
    std::size_t clear = 0, in_use = 0; // among the blocks from this one on: without weights, and in use
    for (std::size_t block = all; block-- > 0 && least > 0;) { // from the end: while weights are loaded, all is free
      if (is_withheld(block)) {
        clear = in_use = 0;
        continue;
      }
      in_use += core_->store.device().is_free(block) ? 0U : 1U;
      ++clear;
      if (clear > wanted) {
        in_use -= core_->store.device().is_free(block + wanted) ? 0U : 1U;
        clear = wanted;
      }
      if (clear < wanted || in_use >= least) continue;
      least = in_use;
      best = BlockRange{block, wanted};
    }
    return best;
  }

  MachineCore* core_;
  std::int64_t block_;
  std::array<std::vector<BlockRange>, 2> ranges_; ///< of homes and of slots, by their number
  std::vector<Holder> holders_;                   ///< during one `take`
  std::vector<std::int32_t> first_holders_;       ///< by block, a number in `holders_`; -1: none
  bool knows_holders_ = false;
};

} // namespace sluice
