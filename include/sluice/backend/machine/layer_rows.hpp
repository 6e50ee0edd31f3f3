// SPDX-License-Identifier: Apache-2.0
// LayerRows: the blocks of a layer, by address, as a model's code is told of them.
#pragma once

#include "sluice/backend/machine/device.hpp"
#include "sluice/backend/machine/hidden_states.hpp"
#include "sluice/backend/machine/machine_core.hpp"
#include "sluice/decoder/decoder.hpp"
#include "sluice/decoder/model_runner.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Collects, layer after layer, the rows of a batch and where their K and V are. Each address is asked of the lane that
/// computes, as read or as written, so that the lane waits for what the block's content needs.
class LayerRows {
 public:
  /// The schedule's mutex is held: cells of other layers change meanwhile, in the same vectors.
  template <ComputeLane Lane>
  void collect(MachineCore& core, int layer, Lane& lane) {
    addresses_.resize(std::max(addresses_.size(), core.batch.size()));
    rows_.clear();
    for (std::size_t i = 0; i < core.batch.size(); ++i) {
      const Part& part = core.batch[i];
      KvSequence& sequence = core.sequence(part);
      if (sequence.lost || !part.uses(layer)) continue;
      const auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
      std::vector<std::byte*>& addresses = addresses_[i];
      addresses.clear();
      std::int64_t made = 0; // blocks that are rebuilt: the oldest
      for (std::int64_t block = 0; block < part.blocks; ++block) {
        const KvCell& cell = cells[static_cast<std::size_t>(block)];
        const bool is_made = cell.tokens == 0 && block * core.block_tokens < part.rebuilt;
        const bool appended = part.fresh > 0 && (block + 1) * core.block_tokens > part.held;
        if (is_made) made = block + 1;
        const DevicePlace place{DevicePlace::Kind::kv_block, cell.device};
        // A model's code has one table of blocks, and writes to none that it only reads.
        addresses.push_back(is_made || appended ? lane.writes(place) : const_cast<std::byte*>(lane.reads(place)));
      }
      if (part.fresh > 0)
        rows_.push_back({part.first_row, static_cast<int>(part.fresh), static_cast<int>(part.held), addresses.data(),
                         static_cast<int>(part.held)});
      if (!part.rebuilds(layer)) continue;
      // The decoder stores what is missing; the other rows only pass, for the sake of later layers.
      const int stored = static_cast<int>(std::min(part.rebuilt, made * core.block_tokens));
      const int all = static_cast<int>(part.rebuilt);
      if (stored > 0) rows_.push_back({part.rebuilt_row, stored, 0, addresses.data(), 0});
      if (stored < all) rows_.push_back({part.rebuilt_row + stored, all - stored, stored, addresses.data(), all});
    }
  }
  [[nodiscard]] std::span<const SequenceRows> rows() const { return rows_; }

  /// Collects the rows that begin the layer with hidden states, as far as these are on the device. The schedule's mutex
  /// is held.
  template <ComputeLane Lane>
  void collect_restored(MachineCore& core, int layer, Lane& lane) {
    hidden_.clear();
    read_.clear();
    const std::int64_t each = core.store.shape().hidden_tokens();
    for (const Part& part : core.batch.parts()) {
      KvSequence& sequence = core.sequence(part);
      if (sequence.lost || !part.restored.contains(layer)) continue;
      auto& cells = sequence.hidden_cells(layer);
      for (std::int64_t block = 0; block < hidden_blocks(core, part.rebuilt); ++block) {
        KvCell& cell = cells[static_cast<std::size_t>(block)];
        if (!cell.restores || cell.awaited) continue;
        cell.restores = false;
        read_.push_back(&cell);
        const std::int64_t first = block * each;
        const DevicePlace place{DevicePlace::Kind::kv_block, cell.device};
        // A model's code has one kind of rows, and writes to none with which it begins.
        hidden_.push_back({part.rebuilt_row + static_cast<int>(first),
                           static_cast<int>(std::min(each, part.rebuilt - first)),
                           const_cast<std::byte*>(lane.reads(place))});
      }
    }
  }
  /// They have been read: their blocks are free.
  void leave_restored(MachineCore& core) {
    for (KvCell* cell : read_) leave(core, *cell);
    core.schedule.freed();
  }
  /// Collects the rows whose hidden states the layer keeps: of a prefix that passes once more, and of new tokens. The
  /// schedule's mutex is held.
  template <ComputeLane Lane>
  void collect_kept(MachineCore& core, int layer, Lane& lane) {
    hidden_.clear();
    for (const Part& part : core.batch.parts()) {
      KvSequence& sequence = core.sequence(part);
      if (sequence.lost || !part.uses(layer)) continue;
      const HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
      keep(core, sequence, layer, hidden.kept, std::min(hidden.wanted, part.rebuilt), part.rebuilt_row, lane);
      keep(core, sequence, layer, std::max(hidden.kept, part.held), hidden.wanted,
           part.first_row - static_cast<int>(part.held), lane);
    }
  }
  /// What was collected last of either.
  [[nodiscard]] std::span<const HiddenRows> hidden() const { return hidden_; }

 private:
  /// Hidden states of the tokens `from` .. `to` - 1; token 0 would have row `row`.
  template <ComputeLane Lane>
  void keep(const MachineCore& core, KvSequence& sequence, int layer, std::int64_t from, std::int64_t to, int row,
            Lane& lane) {
    const KvBlockShape& shape = core.store.shape();
    while (from < to) {
      const std::int64_t block = from / shape.hidden_tokens(), first = block * shape.hidden_tokens();
      const std::int64_t end = std::min(to, first + shape.hidden_tokens());
      const KvCell& cell = sequence.hidden_cells(layer)[static_cast<std::size_t>(block)];
      std::byte* const at = lane.writes(DevicePlace{DevicePlace::Kind::kv_block, cell.device});
      hidden_.push_back(
          {row + static_cast<int>(from), static_cast<int>(end - from), at + (from - first) * shape.hidden_bytes});
      from = end;
    }
  }

  std::vector<std::vector<std::byte*>> addresses_; ///< by part: its blocks of the layer
  std::vector<SequenceRows> rows_;
  std::vector<HiddenRows> hidden_;
  std::vector<KvCell*> read_; ///< blocks of hidden states that the runner is given to read
};

} // namespace sluice
