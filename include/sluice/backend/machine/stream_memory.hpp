// SPDX-License-Identifier: Apache-2.0
// stream_kv_blocks, stream_host_bytes: the two memories of a machine whose device has one of its own.
#pragma once

#include "sluice/backend/machine/beside.hpp"
#include "sluice/backend/machine/host_images.hpp"
#include "sluice/backend/machine/machine_core.hpp"
#include "sluice/backend/machine/machine_setup.hpp"
#include "sluice/core/units.hpp"
#include "sluice/decoder/weights.hpp"

#include <cstdint>

namespace sluice {

/// The memory that a machine on a StreamDevice leaves for KV when all weights and the workspace are on the device, in
/// layer blocks of elements of `element_bytes`; below 0 where the weights alone are larger. An engine is told of so
/// many (`Config::device_blocks`): it reckons weights to the byte, and they have whole blocks here, so the last block
/// of each is the machine's to count:
///
///  - of each layer, while all of it stays;
///  - and one more for each layer, of which a plan may stream a share: the part that stays and the part that passes
///    through a slot are rounded up each, and two parts take at most one block more than the whole. What has no slot of
///    its own takes less than that: the engine gives KV all that the plan frees, but no part of a block.
///
/// Blocks that move need none besides: a home or slot takes its blocks from the budget before anything moves, so there
/// are as many empty ones as have to be made room for.
[[nodiscard]] inline LayerBlocks stream_kv_blocks(const ModelWeights& weights, Bytes workspace,
                                                  std::int64_t element_bytes, const MachineSetup& setup) {
  const auto whole = [](std::int64_t bytes, std::int64_t block) { return (bytes + block - 1) / block; };
  const ModelShape& shape = weights.config.shape;
  const std::int64_t block = kv_block_shape(shape, setup.limits.block_tokens, element_bytes).bytes().count();
  const std::int64_t left = (setup.device_memory - bytes_beside(weights, workspace)).count();
  const std::int64_t all = left >= 0 ? left / block : -whole(-left, block);
  return LayerBlocks{all - shape.layers * (whole(weights.layout.bytes.count(), block) + 1)} - setup.hidden_blocks;
}

/// Memory of the host that such a machine takes for good, pinned: the host's KV with places for as much in flight as
/// the device has blocks, and the images of layers that may stream.
[[nodiscard]] inline Bytes stream_host_bytes(const ModelWeights& weights, Bytes workspace, std::int64_t element_bytes,
                                             const MachineSetup& setup) {
  const Bytes block = kv_block_shape(weights.config.shape, setup.limits.block_tokens, element_bytes).bytes();
  const std::size_t kv = KvStore::host_blocks_for(
      setup.host_blocks, device_block_numbers(setup.device_memory, bytes_beside(weights, workspace), block));
  return block * static_cast<std::int64_t>(HostImages(kv, setup, weights, block).arena_blocks());
}

} // namespace sluice
