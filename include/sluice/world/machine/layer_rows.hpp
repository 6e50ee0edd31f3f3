// SPDX-License-Identifier: Apache-2.0
// LayerRows: the addresses of a layer's blocks, for the model's runner.
#pragma once

#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/world/machine/device.hpp"
#include "sluice/world/machine/hidden_states.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Collects, layer by layer, the rows of a batch and the addresses of their K and V. It asks the compute lane for each
/// address, for reading or for writing, so that the lane waits for what the block's content needs. A sequence keeps a
/// table of addresses per layer; while the layer is resident only new blocks are added to it.
class LayerRows {
 public:
  /// The caller holds the schedule's mutex: entries of other layers change meanwhile, in the same vectors.
  template <ComputeLane Lane>
  void collect(MachineCore& core, int layer, Lane& lane) {
    addresses_.resize(std::max(addresses_.size(), core.sequences.slots() * static_cast<std::size_t>(core.layers)));
    rows_.clear();
    const std::int64_t block_bytes = core.store.shape().bytes().count();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (sequence.lost || !scheduled.uses(layer)) continue;
      BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
      const std::size_t number =
          index(scheduled.slot) * static_cast<std::size_t>(core.layers) + static_cast<std::size_t>(layer);
      std::vector<std::byte*>& addresses = addresses_[number];
      std::int32_t& known = sequence.known[static_cast<std::size_t>(layer)];
      const bool resident = sequence.resident.contains(layer);
      const std::int64_t appended = scheduled.fresh > 0 ? scheduled.held / core.block_tokens : scheduled.blocks;
      const std::int64_t block = resident ? known : 0;
      if (block > 0) lane.again(number); // nobody else has written these blocks since
      if (block < scheduled.blocks) {
        if (const auto size = static_cast<std::size_t>(table.size()); addresses.size() < size)
          addresses.resize(std::bit_ceil(size));
        table.cut(appended);
        table.cut(core.blocks_of(scheduled.rebuilt));
      }
      std::int64_t made = 0; // rebuilt blocks: the oldest
      table.each(block, scheduled.blocks, [&](const BlockRun& run) {
        const bool is_made = run.tokens == 0 && run.first * core.block_tokens < scheduled.rebuilt;
        if (is_made) made = run.end();
        const DevicePlace place{DevicePlace::Kind::kv_block, run.device, run.count};
        // A runner takes one table of blocks, and writes to none that it only reads.
        std::byte* address = is_made || run.first >= appended ? lane.writes(place, number)
                                                              : const_cast<std::byte*>(lane.reads(place, number));
        for (std::int32_t i = run.first; i < run.end(); ++i, address += block_bytes)
          addresses[static_cast<std::size_t>(i)] = address;
      });
      known = resident ? static_cast<std::int32_t>(scheduled.blocks) : 0;
      if (scheduled.fresh > 0)
        rows_.push_back({scheduled.first_row, static_cast<int>(scheduled.fresh), static_cast<int>(scheduled.held),
                         addresses.data(), static_cast<int>(scheduled.held)});
      if (!scheduled.rebuilds(layer)) continue;
      // The decoder stores what is missing; the other rows only pass, for the sake of later layers.
      const int stored = static_cast<int>(std::min(scheduled.rebuilt, made * core.block_tokens));
      const int all = static_cast<int>(scheduled.rebuilt);
      if (stored > 0) rows_.push_back({scheduled.rebuilt_row, stored, 0, addresses.data(), 0});
      if (stored < all) rows_.push_back({scheduled.rebuilt_row + stored, all - stored, stored, addresses.data(), all});
    }
  }
  [[nodiscard]] std::span<const SequenceRows> rows() const { return rows_; }

  /// Collects the rows that start the layer from hidden states, if these are on the device. The caller holds the
  /// schedule's mutex.
  template <ComputeLane Lane>
  void collect_restored(MachineCore& core, int layer, Lane& lane) {
    hidden_.clear();
    read_.clear();
    const std::int64_t each = core.store.shape().hidden_tokens();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (sequence.lost || !scheduled.restored.contains(layer)) continue;
      sequence.hidden_table(layer).each(0, hidden_blocks(core, scheduled.rebuilt), [&](BlockRun& run) {
        if (!run.restores || run.awaited) return;
        run.restores = false;
        read_.push_back(core.sequences.ref(sequence, core.layers + layer, run.first));
        const std::int64_t first = run.first * each;
        const DevicePlace place{DevicePlace::Kind::kv_block, run.device};
        // A runner takes one kind of rows, and writes to none that it starts from.
        hidden_.push_back({scheduled.rebuilt_row + static_cast<int>(first),
                           static_cast<int>(std::min(each, scheduled.rebuilt - first)),
                           const_cast<std::byte*>(lane.reads(place))});
      });
    }
  }
  /// The runner has read them: frees their blocks.
  void leave_restored(MachineCore& core) {
    for (const BlockRef& ref : read_)
      if (BlockTable* const table = core.sequences.table(ref)) core.schedule.evict(ref, table->one(ref.block));
    core.schedule.freed();
  }
  /// Collects the rows whose hidden states the layer keeps: of a prefix that passes again, and of new tokens. The
  /// caller holds the schedule's mutex.
  template <ComputeLane Lane>
  void collect_kept(MachineCore& core, int layer, Lane& lane) {
    hidden_.clear();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (!sequence.has_hidden || sequence.lost || !scheduled.uses(layer)) continue;
      const HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
      keep(core, sequence, layer, hidden.kept, std::min(hidden.wanted, scheduled.rebuilt), scheduled.rebuilt_row, lane);
      keep(core, sequence, layer, std::max(hidden.kept, scheduled.held), hidden.wanted,
           scheduled.first_row - static_cast<int>(scheduled.held), lane);
    }
  }
  /// The result of the last collect_restored or collect_kept.
  [[nodiscard]] std::span<const HiddenRows> hidden() const { return hidden_; }

 private:
  /// Adds the hidden states of tokens `from` .. `to` - 1; token 0 would have row `row`.
  template <ComputeLane Lane>
  void keep(const MachineCore& core, KvSequence& sequence, int layer, std::int64_t from, std::int64_t to, int row,
            Lane& lane) {
    const KvBlockShape& shape = core.store.shape();
    while (from < to) {
      const std::int64_t block = from / shape.hidden_tokens(), first = block * shape.hidden_tokens();
      const std::int64_t end = std::min(to, first + shape.hidden_tokens());
      const BlockRun& run = sequence.hidden_table(layer).one(block);
      std::byte* const at = lane.writes(DevicePlace{DevicePlace::Kind::kv_block, run.device});
      hidden_.push_back(
          {row + static_cast<int>(from), static_cast<int>(end - from), at + (from - first) * shape.hidden_bytes});
      from = end;
    }
  }

  std::vector<std::vector<std::byte*>> addresses_; ///< by slot and layer: its blocks
  std::vector<SequenceRows> rows_;
  std::vector<HiddenRows> hidden_;
  std::vector<BlockRef> read_; ///< blocks of hidden states that the runner is reading
};

} // namespace sluice
