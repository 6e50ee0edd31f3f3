// SPDX-License-Identifier: Apache-2.0
// MachineCore: what a machine knows of its two memories and of the iteration under way.
#pragma once

#include "sluice/backend/machine/batch.hpp"
#include "sluice/backend/machine/kv_sequences.hpp"
#include "sluice/backend/machine/kv_store.hpp"
#include "sluice/backend/machine/link_schedule.hpp"
#include "sluice/backend/machine/machine_setup.hpp"
#include "sluice/backend/machine/weight_store.hpp"
#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/decoder/weights.hpp"
#include "sluice/view/view.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice {

/// The shape of a layer block of a model's KV, in elements of `element_bytes`, as its hidden states are.
[[nodiscard]] inline KvBlockShape kv_block_shape(const ModelShape& shape, Tokens block_tokens,
                                                 std::int64_t element_bytes) {
  return {std::int64_t{2} * shape.kv_heads, element_bytes * shape.head_dim, block_tokens.count(),
          element_bytes * shape.hidden};
}

/// Numbers of device blocks, as many as if layers took nothing: the budget bounds how many are in use.
[[nodiscard]] inline std::int64_t device_block_numbers(Bytes memory, Bytes beside, Bytes block) {
  return std::max(Bytes{0}, memory - beside) / block;
}

/// The state of a machine, without a byte of it: everything here is a number of a block, a layer or a slot. The steps
/// of an iteration are functions over this (settle.hpp, link_waits.hpp, need_blocks.hpp, close_layer.hpp), the same for
/// every device; `schedule.mutex` guards it while a link moves. Do not move it: the schedule has its parts' addresses.
struct MachineCore {
  /// `workspace_bytes`: memory that an iteration computes in. What a device says of itself: see MachineDevice
  /// (device.hpp).
  template <class Device>
  MachineCore(ModelWeights model, const MachineSetup& machine_setup, const KvBlockShape& block, DeviceMemory& memory,
              Bytes workspace_bytes, const Device& device)
      : setup(machine_setup),
        workspace(workspace_bytes),
        beside(device.beside(model, workspace_bytes)),
        layers(model.config.shape.layers),
        block_tokens(machine_setup.limits.block_tokens.count()),
        store(block, memory, machine_setup.host_blocks, device_block_numbers(memory.size(), beside, block.bytes())),
        sequences(store, layers),
        weights(std::move(model), memory, beside - workspace, device.granularity(block.bytes())),
        schedule(store, sequences, weights, layers, machine_setup.link.each_way, device.copies_count(machine_setup),
                 machine_setup.faults) {}
  MachineCore(const MachineCore&) = delete;
  MachineCore& operator=(const MachineCore&) = delete;

  [[nodiscard]] std::int64_t blocks_of(std::int64_t tokens) const { return (tokens + block_tokens - 1) / block_tokens; }
  [[nodiscard]] std::int64_t head_of(const RequestRow& row) const {
    return row.holding.head_blocks(row.blocks, setup.limits.block_tokens).count();
  }
  [[nodiscard]] KvSequence& sequence(const Part& part) { return *sequences.find(part.slot); }

  /// The request's KV is lost; whoever waits for it learns of it at the next look.
  void lose(Slot slot, std::string_view reason) {
    KvSequence& sequence = *sequences.find(slot);
    if (sequence.lost) return;
    sequence.lost = true;
    sequence.reason = reason;
  }

  /// Calls `visit(part, sequence, layer, block, cell)` for every block of the batch's requests, new ones included.
  template <class Visit>
  void each_cell(Visit&& visit) {
    for (const Part& part : batch.parts()) {
      KvSequence& one = sequence(part);
      for (int layer = 0; layer < layers; ++layer) {
        auto& cells = one.cells[static_cast<std::size_t>(layer)];
        for (std::int64_t block = 0; block < part.blocks; ++block)
          visit(part, one, layer, block, cells[static_cast<std::size_t>(block)]);
      }
    }
  }

  MachineSetup setup;
  Bytes workspace; ///< that the runner computes in
  Bytes beside;    ///< workspace and the weights outside the layers, as they lie in the memory
  int layers;
  std::int64_t block_tokens;
  KvStore store;
  KvSequences sequences;
  WeightStore weights;
  LinkSchedule schedule;
  Batch batch;
};

/// A clean block leaves at once: its copy is all that remains.
inline void leave(MachineCore& core, KvCell& cell) {
  std::optional<PlacedCopy> nothing;
  [[maybe_unused]] const bool left = core.store.send(cell, true, nothing);
  SLUICE_ASSERT(left && !nothing, "a clean block has a copy");
  cell.queued = cell.leaves = cell.passing = cell.awaited = false;
}

} // namespace sluice
