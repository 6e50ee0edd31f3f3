// SPDX-License-Identifier: Apache-2.0
// MachineCore: the state of a machine's two memories and of the iteration under way.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/world/host_tier/host_tier.hpp"
#include "sluice/world/machine/batch.hpp"
#include "sluice/world/machine/kv_sequences.hpp"
#include "sluice/world/machine/kv_store.hpp"
#include "sluice/world/machine/link_schedule.hpp"
#include "sluice/world/machine/machine_setup.hpp"
#include "sluice/world/machine/weight_store.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

/// The shape of a layer block of a model's KV, with elements of `element_bytes`; hidden states have the same element.
[[nodiscard]] inline KvBlockShape kv_block_shape(const ModelShape& shape, Tokens block_tokens,
                                                 std::int64_t element_bytes) {
  return {std::int64_t{2} * shape.kv_heads, element_bytes * shape.head_dim, block_tokens.count(),
          element_bytes * shape.hidden};
}

/// How many device blocks are numbered: as many as if layers took nothing. The budget bounds how many are in use.
[[nodiscard]] inline std::int64_t device_block_numbers(Bytes memory, Bytes beside, Bytes block) {
  return std::max(Bytes{0}, memory - beside) / block;
}

/// The state of a machine, without addresses: everything here is a number of a block, a layer or a slot. The steps of
/// an iteration are functions over it (block_steps.hpp, layers.hpp, hidden_states.hpp), the same for every device;
/// `schedule.mutex` guards it while a link moves. Do not move it: the schedule holds its members' addresses.
struct MachineCore {
  /// `workspace_bytes`: memory that an iteration computes in. MachineDevice (device.hpp) describes `device`.
  template <class Device>
  MachineCore(ModelWeights model, const MachineSetup& machine_setup, const KvBlockShape& block, DeviceMemory& memory,
              Bytes workspace_bytes, const Device& device)
      : setup(machine_setup),
        workspace(workspace_bytes),
        beside(device.beside(model, workspace_bytes)),
        layers(model.config.shape.layers),
        block_tokens(machine_setup.limits.block_tokens.count()),
        store(block, memory, machine_setup.host_blocks + machine_setup.tier_blocks,
              device_block_numbers(memory.size(), beside, block.bytes())),
        tier(store, layers, machine_setup.tier_blocks, machine_setup.tier_evicts, machine_setup.tier_pin_share),
        sequences(store, layers),
        weights(std::move(model), memory, beside - workspace, device.granularity(block.bytes()), Device::copy_bytes),
        schedule(store, sequences, weights, layers, machine_setup.link.each_way, device.copies_count(machine_setup),
                 std::max<std::int64_t>(1, Device::copy_bytes / std::max<std::int64_t>(1, block.bytes().count())),
                 machine_setup.faults) {}
  MachineCore(const MachineCore&) = delete;
  MachineCore& operator=(const MachineCore&) = delete;

  [[nodiscard]] std::int64_t blocks_of(std::int64_t tokens) const { return (tokens + block_tokens - 1) / block_tokens; }
  [[nodiscard]] std::int64_t head_of(const RequestRow& row) const {
    return row.holding.head_blocks(row.blocks, setup.limits.block_tokens).count();
  }
  [[nodiscard]] KvSequence& sequence(const ScheduledRequest& scheduled) { return *sequences.find(scheduled.slot); }
  /// Moves a run of blocks to the host, and releases their device copies. `table`: from L on, hidden states.
  void evict(const KvSequence& sequence, int table, BlockRun& run) {
    schedule.evict(sequences.ref(sequence, table, run.first), run);
  }

  MachineSetup setup;
  Bytes workspace; ///< the runner's
  Bytes beside;    ///< workspace and the weights outside the layers, with their alignment
  int layers;
  std::int64_t block_tokens;
  KvStore store;
  HostTier tier;
  KvSequences sequences;
  WeightStore weights;
  LinkSchedule schedule;
  Batch batch;
  std::vector<std::uint8_t> marks; ///< of `reconcile`, by slot
};

} // namespace sluice
