// SPDX-License-Identifier: Apache-2.0
// LayerRows: the blocks of a layer, by address, as a model's code is told of them.
#pragma once

#include "sluice/backend/machine/device.hpp"
#include "sluice/backend/machine/machine_core.hpp"
#include "sluice/decoder/decoder.hpp"

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
      if (layer > part.last_rebuilt) continue;
      // The decoder stores what is missing; the other rows only pass, for the sake of later layers.
      const int stored = static_cast<int>(std::min(part.rebuilt, made * core.block_tokens));
      const int all = static_cast<int>(part.rebuilt);
      if (stored > 0) rows_.push_back({part.rebuilt_row, stored, 0, addresses.data(), 0});
      if (stored < all) rows_.push_back({part.rebuilt_row + stored, all - stored, stored, addresses.data(), all});
    }
  }
  [[nodiscard]] std::span<const SequenceRows> rows() const { return rows_; }

 private:
  std::vector<std::vector<std::byte*>> addresses_; ///< by part: its blocks of the layer
  std::vector<SequenceRows> rows_;
};

} // namespace sluice
