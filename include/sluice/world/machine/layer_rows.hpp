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
/// table of addresses per layer; while the layer is resident only new blocks are added to it, and the runner gets
/// only these.
class LayerRows {
 public:
  /// Gives the runner, before the first layer, the blocks that resident layers have got since their last launch, so
  /// that it can upload all of them at once. The blocks' uses still begin with their layers, which ask the lane for
  /// them again. The caller holds the schedule's mutex.
  template <class Lane>
  void announce(MachineCore& core, Lane& lane, ModelRunner& runner) {
    find_tables(core);
    grown_.clear();
    const std::int64_t block_bytes = core.store.shape().bytes().count();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (sequence.lost || scheduled.fresh == 0 || core.blocks_of(scheduled.held) >= scheduled.blocks) continue;
      sequence.resident.for_each([&](int layer) {
        const std::int32_t known = sequence.known[static_cast<std::size_t>(layer)];
        if (known == 0) return; // the whole table is new, and goes with its layer
        Addresses& kept = addresses_[number(core, scheduled, layer)];
        const BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
        kept.make_room(table.size());
        for (std::size_t at = table.find(known); at < table.runs().size(); ++at) {
          BlockRun run = table.runs()[at];
          if (!run.on_device()) return; // the layer makes room for it
          if (run.first < known) run = run.split(known);
          kept.write(run, lane.address({DevicePlace::Kind::kv_block, run.device, run.count}), block_bytes);
        }
        kept.announced = static_cast<std::int32_t>(scheduled.blocks);
        grown_.push_back(
            {layer, static_cast<std::int32_t>(index(scheduled.slot)), known, kept.announced, kept.blocks.data()});
      });
    }
    if (!grown_.empty()) runner.announce(grown_);
  }

  /// The caller holds the schedule's mutex: entries of other layers change meanwhile, in the same vectors.
  template <ComputeLane Lane>
  void collect(MachineCore& core, int layer, Lane& lane) {
    find_tables(core);
    rows_.clear();
    const std::int64_t block_bytes = core.store.shape().bytes().count();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (sequence.lost || !scheduled.uses(layer)) continue;
      BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
      const std::size_t number_of_table = number(core, scheduled, layer);
      std::int32_t& known = sequence.known[static_cast<std::size_t>(layer)];
      const bool resident = sequence.resident.contains(layer);
      Addresses& addresses = resident ? addresses_[number_of_table] : passing_[index(scheduled.slot)];
      const std::int64_t appended = scheduled.fresh > 0 ? scheduled.held / core.block_tokens : scheduled.blocks;
      const std::int64_t block = resident ? known : 0;
      const std::int32_t announced = block > 0 ? addresses.announced : 0;
      if (block > 0) lane.again(number_of_table); // nobody else has written these blocks since
      if (block < scheduled.blocks) {
        addresses.make_room(table.size());
        table.cut(appended);
        table.cut(core.blocks_of(scheduled.rebuilt));
      }
      std::int64_t made = 0; // rebuilt blocks: the oldest
      table.each(block, scheduled.blocks, [&](const BlockRun& run) {
        const bool is_made = run.tokens == 0 && run.first * core.block_tokens < scheduled.rebuilt;
        if (is_made) made = run.end();
        const DevicePlace place{DevicePlace::Kind::kv_block, run.device, run.count};
        // A runner takes one table of blocks, and writes to none that it only reads.
        addresses.write(run,
                        is_made || run.first >= appended ? lane.writes(place, number_of_table)
                                                         : const_cast<std::byte*>(lane.reads(place, number_of_table)),
                        block_bytes);
      });
      known = addresses.announced = resident ? static_cast<std::int32_t>(scheduled.blocks) : 0;
      const auto add = [&](int first_row, int rows, int position, int stored_from) {
        rows_.push_back({first_row, rows, position, addresses.blocks.data(), stored_from,
                         resident ? static_cast<std::int32_t>(index(scheduled.slot)) : -1, announced});
      };
      if (scheduled.fresh > 0)
        add(scheduled.first_row, static_cast<int>(scheduled.fresh), static_cast<int>(scheduled.held),
            static_cast<int>(scheduled.held));
      if (!scheduled.rebuilds(layer)) continue;
      // The decoder stores what is missing; the other rows only pass, for the sake of later layers.
      const int stored = static_cast<int>(std::min(scheduled.rebuilt, made * core.block_tokens));
      const int all = static_cast<int>(scheduled.rebuilt);
      if (stored > 0) add(scheduled.rebuilt_row, stored, 0, 0);
      if (stored < all) add(scheduled.rebuilt_row + stored, all - stored, stored, all);
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
  /// A table's addresses, and how many of them the runner has.
  struct Addresses {
    std::vector<std::byte*> blocks;
    std::int32_t announced = 0; ///< valid while the sequence's `known` blocks are those of the last launch

    void make_room(std::int64_t size) {
      if (static_cast<std::int64_t>(blocks.size()) < size) blocks.resize(std::bit_ceil(static_cast<std::size_t>(size)));
    }
    void write(const BlockRun& run, std::byte* first, std::int64_t block_bytes) {
      for (std::int32_t i = run.first; i < run.end(); ++i, first += block_bytes)
        blocks[static_cast<std::size_t>(i)] = first;
    }
  };

  void find_tables(const MachineCore& core) {
    const std::size_t slots = std::max(passing_.size(), core.sequences.slots());
    passing_.resize(slots);
    addresses_.resize(slots * static_cast<std::size_t>(core.layers));
  }
  [[nodiscard]] static std::size_t number(const MachineCore& core, const ScheduledRequest& scheduled, int layer) {
    return index(scheduled.slot) * static_cast<std::size_t>(core.layers) + static_cast<std::size_t>(layer);
  }
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

  std::vector<Addresses> addresses_; ///< of resident layers, by slot and layer
  std::vector<Addresses> passing_;   ///< of the other sequences of the layer being launched, by slot
  std::vector<GrownTable> grown_;
  std::vector<SequenceRows> rows_;
  std::vector<HiddenRows> hidden_;
  std::vector<BlockRef> read_; ///< blocks of hidden states that the runner is reading
};

} // namespace sluice
