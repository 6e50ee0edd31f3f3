// SPDX-License-Identifier: Apache-2.0
// stream_kv_blocks, stream_host_bytes: the sizes of both memories for a device with memory of its own.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/machine/machine_core.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/stream/beside.hpp"
#include "sluice/world/stream/stream_lane.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {

// HostImages: the places of streamable layers' images in pinned host memory.

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

/// The memory left for KV when all weights and the workspace are on a StreamDevice, in layer blocks with elements of
/// `element_bytes`; negative if the weights alone are larger. An engine gets this number (`Config::device_blocks`). The
/// engine counts weights to the byte, but here they take whole blocks, so this function reserves the rest of each last
/// block:
///
/// - one per layer, while the whole layer stays;
/// - one more per layer that a plan may stream in part: the part that stays and the part that passes through a slot are
///   both rounded up, and two parts take at most one block more than the whole. A streamed part without a slot takes
///   less: the engine gives KV all memory that the plan frees, but never part of a block.
///
/// Blocks that move need no extra blocks: a home or slot takes its blocks from the budget before anything moves, so
/// there are as many empty blocks as must be cleared.
[[nodiscard]] inline LayerBlocks stream_kv_blocks(const ModelWeights& weights, Bytes workspace,
                                                  std::int64_t element_bytes, const MachineSetup& setup) {
  const auto whole = [](std::int64_t bytes, std::int64_t block) { return (bytes + block - 1) / block; };
  const ModelShape& shape = weights.config.shape;
  const std::int64_t block = kv_block_shape(shape, setup.limits.block_tokens, element_bytes).bytes().count();
  const std::int64_t left = (setup.device_memory - bytes_beside(weights, workspace)).count();
  const std::int64_t all = left >= 0 ? left / block : -whole(-left, block);
  return LayerBlocks{all - shape.layers * (whole(weights.layout.bytes.count(), block) + 1)} - setup.hidden_blocks;
}

/// Pinned host memory that such a machine takes for its lifetime: the host's KV, with places for as much in flight as
/// the device has blocks, and the images of streamable layers.
[[nodiscard]] inline Bytes stream_host_bytes(const ModelWeights& weights, Bytes workspace, std::int64_t element_bytes,
                                             const MachineSetup& setup) {
  const Bytes block = kv_block_shape(weights.config.shape, setup.limits.block_tokens, element_bytes).bytes();
  const std::size_t kv = KvStore::host_blocks_for(
      setup.host_blocks, device_block_numbers(setup.device_memory, bytes_beside(weights, workspace), block));
  return block * static_cast<std::int64_t>(HostImages(kv, setup, weights, block).arena_blocks());
}

} // namespace sluice
