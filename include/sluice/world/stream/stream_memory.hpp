// SPDX-License-Identifier: Apache-2.0
// stream_kv_blocks, stream_host_bytes: the sizes of both memories for a device with memory of its own.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/machine/machine_core.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/stream/beside.hpp"
#include "sluice/world/stream/host_images.hpp"

#include <cstdint>

namespace sluice {

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
