// SPDX-License-Identifier: Apache-2.0
// HostImages: the places of streamable layers' images in pinned host memory.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/stream/stream_lane.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {

/// A device copies asynchronously only from pinned memory; for any other memory the host waits for each copy. So layers
/// that may stream (`MachineSetup::staged`) have a second image, in as many whole blocks of the host's arena as it
/// needs, behind the blocks of KV.
///
/// Rejected: images only of the layers that the plan in force streams. Plans change between two steps, and staging a
/// layer takes longer than a step. Also rejected: pinning the pages of a mapped file, which not every system allows.
class HostImages {
 public:
  /// `first`: the arena's blocks before the images, which KV may use.
  HostImages(std::size_t first, const MachineSetup& setup, const ModelWeights& weights, Bytes block)
      : staged_(setup.staged & LayerSet::all(weights.config.shape.layers)),
        first_(first),
        block_(block.count()),
        blocks_((weights.layout.bytes.count() + block_ - 1) / block_) {}

  [[nodiscard]] const LayerSet& layers() const { return staged_; }

  /// Blocks of the whole arena, including KV's.
  [[nodiscard]] std::size_t arena_blocks() const {
    return first_ + static_cast<std::size_t>(staged_.count() * blocks_);
  }
  /// The blocks that hold a layer's image from byte `at` on, and the offset in the first; nothing if the layer has no
  /// image.
  [[nodiscard]] std::optional<BlockPiece> find(int layer, std::int64_t at, std::int64_t bytes) const {
    if (!staged_.contains(layer)) return std::nullopt;
    const auto before = static_cast<std::size_t>(staged_.below(layer).count() * blocks_);
    return piece_of({first_ + before, static_cast<std::size_t>(blocks_)}, at, bytes, block_);
  }

 private:
  LayerSet staged_;
  std::size_t first_;
  std::int64_t block_;
  std::int64_t blocks_; ///< per image
};

} // namespace sluice
