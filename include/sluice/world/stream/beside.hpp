// SPDX-License-Identifier: Apache-2.0
// memory_beside, load_beside: the runner's own memory on a device, beside the blocks.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/world/machine/machine_core.hpp"
#include "sluice/world/stream/memory_device.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Beside the blocks lie a runner's workspace and, behind it, the weights outside the layers. Their addresses do not
/// come from a lane, because a lane has nothing to order: these weights are written once, before anything runs; the
/// runner's own stream alone uses the workspace; and no transfer touches either. A machine whose link moves any of this
/// must put it into blocks.
inline constexpr std::int64_t beside_alignment =
    256; ///< of each: the width of kernels' loads, and CUDA's own alignment

namespace detail {
[[nodiscard]] inline std::int64_t outer_weights_at(Bytes workspace) {
  return (workspace.count() + beside_alignment - 1) / beside_alignment * beside_alignment;
}
} // namespace detail

/// The bytes of both.
[[nodiscard]] inline Bytes bytes_beside(const OuterWeights& weights, Bytes workspace) {
  return Bytes{detail::outer_weights_at(workspace) +
               weights.lay_out(beside_alignment, [](Matrix OuterWeights::*, std::int64_t) {})};
}

/// The address of the weights outside the layers on such a device.
template <MemoryDevice Memory>
[[nodiscard]] std::byte* outer_weights(Memory& memory, const MachineCore& core) {
  return memory.beside_arena() + detail::outer_weights_at(core.workspace);
}
/// The addresses of both on a device that has reserved that much beside its blocks.
template <MemoryDevice Memory>
[[nodiscard]] RunnerMemory memory_beside(Memory& memory, const MachineCore& core) {
  return {{memory.beside_arena(), static_cast<std::size_t>(core.workspace.count())},
          core.weights.host().moved_to(outer_weights(memory, core), beside_alignment)};
}

/// Gives a stream the copies that bring the weights outside the layers to `start`.
template <MemoryDevice Memory>
void copy_outer(Memory& memory, StreamId stream, const OuterWeights& weights, std::byte* start) {
  weights.lay_out(beside_alignment, [&](Matrix OuterWeights::*member, std::int64_t at) {
    const Matrix& matrix = weights.*member;
    Copy copy;
    copy.from = matrix.row(0);
    copy.to = start + at;
    copy.bytes = matrix.rows * matrix.row_bytes();
    memory.copy_async(stream, copy);
  });
}

/// Copies the weights outside the layers to the device, and waits until they are there.
template <MemoryDevice Memory>
void load_beside(Memory& memory, const MachineCore& core) {
  copy_outer(memory, StreamId::to_device, core.weights.host(), outer_weights(memory, core));
  memory.synchronize(memory.record(StreamId::to_device));
}

} // namespace sluice
