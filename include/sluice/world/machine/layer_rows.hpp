// SPDX-License-Identifier: Apache-2.0
// LayerRows: the addresses of a layer's blocks, for the model's runner.
#pragma once

#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/world/machine/device.hpp"
#include "sluice/world/machine/hidden_states.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Collects, layer by layer, the rows of a batch and the addresses of their K and V. It asks the compute lane for each
/// address, for reading or for writing, so that the lane waits for what the block's content needs.
class LayerRows {
 public:
  /// The caller holds the schedule's mutex: entries of other layers change meanwhile, in the same vectors.
  template <ComputeLane Lane>
  void collect(MachineCore& core, int layer, Lane& lane) {
    addresses_.resize(std::max(addresses_.size(), core.batch.size()));
    rows_.clear();
    for (std::size_t i = 0; i < core.batch.size(); ++i) {
      const ScheduledRequest& scheduled = core.batch[i];
      KvSequence& sequence = core.sequence(scheduled);
      if (sequence.lost || !scheduled.uses(layer)) continue;
      const auto& table = sequence.tables[static_cast<std::size_t>(layer)];
      std::vector<std::byte*>& addresses = addresses_[i];
      addresses.clear();
      std::int64_t made = 0; // rebuilt blocks: the oldest
      for (std::int64_t block = 0; block < scheduled.blocks; ++block) {
        const KvBlock& entry = table[static_cast<std::size_t>(block)];
        const bool is_made = entry.tokens == 0 && block * core.block_tokens < scheduled.rebuilt;
        const bool appended = scheduled.fresh > 0 && (block + 1) * core.block_tokens > scheduled.held;
        if (is_made) made = block + 1;
        const DevicePlace place{DevicePlace::Kind::kv_block, entry.device};
        // A runner takes one table of blocks, and writes to none that it only reads.
        addresses.push_back(is_made || appended ? lane.writes(place) : const_cast<std::byte*>(lane.reads(place)));
      }
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
      auto& table = sequence.hidden_table(layer);
      for (std::int64_t block = 0; block < hidden_blocks(core, scheduled.rebuilt); ++block) {
        KvBlock& entry = table[static_cast<std::size_t>(block)];
        if (!entry.restores || entry.awaited) continue;
        entry.restores = false;
        read_.push_back(&entry);
        const std::int64_t first = block * each;
        const DevicePlace place{DevicePlace::Kind::kv_block, entry.device};
        // A runner takes one kind of rows, and writes to none that it starts from.
        hidden_.push_back({scheduled.rebuilt_row + static_cast<int>(first),
                           static_cast<int>(std::min(each, scheduled.rebuilt - first)),
                           const_cast<std::byte*>(lane.reads(place))});
      }
    }
  }
  /// The runner has read them: frees their blocks.
  void leave_restored(MachineCore& core) {
    for (KvBlock* entry : read_) leave(core, *entry);
    core.schedule.freed();
  }
  /// Collects the rows whose hidden states the layer keeps: of a prefix that passes again, and of new tokens. The
  /// caller holds the schedule's mutex.
  template <ComputeLane Lane>
  void collect_kept(MachineCore& core, int layer, Lane& lane) {
    hidden_.clear();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (sequence.lost || !scheduled.uses(layer)) continue;
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
      const KvBlock& entry = sequence.hidden_table(layer)[static_cast<std::size_t>(block)];
      std::byte* const at = lane.writes(DevicePlace{DevicePlace::Kind::kv_block, entry.device});
      hidden_.push_back(
          {row + static_cast<int>(from), static_cast<int>(end - from), at + (from - first) * shape.hidden_bytes});
      from = end;
    }
  }

  std::vector<std::vector<std::byte*>> addresses_; ///< by scheduled request: its blocks of the layer
  std::vector<SequenceRows> rows_;
  std::vector<HiddenRows> hidden_;
  std::vector<KvBlock*> read_; ///< blocks of hidden states that the runner is reading
};

} // namespace sluice
