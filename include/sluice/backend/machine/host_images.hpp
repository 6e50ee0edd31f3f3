// SPDX-License-Identifier: Apache-2.0
// HostImages: where the images of layers that may stream lie in the memory of the host that a device copies from.
#pragma once

#include "sluice/backend/machine/block_uses.hpp"
#include "sluice/backend/machine/machine_setup.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/decoder/weights.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {

/// A device copies asynchronously from pinned memory alone; from any other the host waits for each copy. So layers that
/// may stream (`MachineSetup::staged`) have their images a second time, in blocks of the host's arena behind those of
/// KV, as many as their bytes fill.
///
/// Rejected: the images of those layers that the plan in force streams. Plans change between two steps, and a layer
/// takes longer to stage than a step. And to pin the pages of a mapped file: not every system does.
class HostImages {
 public:
  /// `first`: blocks of the arena before the images, all those that KV may be given.
  HostImages(std::size_t first, const MachineSetup& setup, const ModelWeights& weights, Bytes block)
      : staged_(setup.staged & LayerSet::all(weights.config.shape.layers)),
        first_(first),
        block_(block.count()),
        blocks_((weights.layout.bytes.count() + block_ - 1) / block_) {}

  [[nodiscard]] const LayerSet& layers() const { return staged_; }

  /// Blocks of the whole arena, KV's too.
  [[nodiscard]] std::size_t arena_blocks() const {
    return first_ + static_cast<std::size_t>(staged_.count() * blocks_);
  }
  /// Of a layer's image the blocks with its bytes from `at` on, and where in them these begin. Nothing where the layer
  /// has none.
  [[nodiscard]] std::optional<BlockPiece> find(int layer, std::int64_t at, std::int64_t bytes) const {
    if (!staged_.contains(layer)) return std::nullopt;
    const auto before = static_cast<std::size_t>(staged_.below(layer).count() * blocks_);
    return piece_of({first_ + before, static_cast<std::size_t>(blocks_)}, at, bytes, block_);
  }

 private:
  LayerSet staged_;
  std::size_t first_;
  std::int64_t block_;
  std::int64_t blocks_; ///< of an image
};

} // namespace sluice
