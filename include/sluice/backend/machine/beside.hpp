// SPDX-License-Identifier: Apache-2.0
// memory_beside, load_beside: what of a device's memory is its runner's, beside the blocks.
#pragma once

#include "sluice/backend/machine/machine_core.hpp"
#include "sluice/backend/machine/memory_device.hpp"
#include "sluice/core/units.hpp"
#include "sluice/decoder/model_runner.hpp"
#include "sluice/decoder/weights.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Beside the blocks lie a runner's workspace and, behind it, the weights outside the layers. Their addresses come of
/// no lane, for there is nothing that a lane could order: the weights are written once, before anything runs, the
/// workspace by the runner's own stream alone, and no transfer ever touches either. So a machine whose link moves
/// something of this must make it blocks.
inline constexpr std::int64_t beside_alignment = 256; ///< of each: what kernels load by, and what CUDA aligns to

namespace detail {
[[nodiscard]] inline std::int64_t outer_weights_at(Bytes workspace) {
  return (workspace.count() + beside_alignment - 1) / beside_alignment * beside_alignment;
}
} // namespace detail

/// What both take.
[[nodiscard]] inline Bytes bytes_beside(const OuterWeights& weights, Bytes workspace) {
  return Bytes{detail::outer_weights_at(workspace) +
               weights.lay_out(beside_alignment, [](Matrix OuterWeights::*, std::int64_t) {})};
}

/// Where both lie on a device that has reserved so much beside its blocks.
template <MemoryDevice Memory>
[[nodiscard]] RunnerMemory memory_beside(Memory& memory, const MachineCore& core) {
  std::byte* const start = memory.beside_arena();
  return {{start, static_cast<std::size_t>(core.workspace.count())},
          core.weights.host().moved_to(start + detail::outer_weights_at(core.workspace), beside_alignment)};
}

/// Gives a stream the copies of weights outside the layers to where they lie at `start`.
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
  copy_outer(memory, StreamId::to_device, core.weights.host(),
             memory.beside_arena() + detail::outer_weights_at(core.workspace));
  memory.synchronize(memory.record(StreamId::to_device));
}

} // namespace sluice
