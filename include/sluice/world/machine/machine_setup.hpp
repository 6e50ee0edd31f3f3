// SPDX-License-Identifier: Apache-2.0
// MachineSetup: how a machine is made, apart from its weights and runner.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/kinds.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/world/link/copy.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace sluice {

class RecordStore; // records/record_store.hpp

struct MachineSetup {
  Bytes device_memory{0}; ///< weights, slots, KV and buffers, all together
  LayerBlocks host_blocks{0};
  LayerBlocks tier_blocks{0}; ///< host blocks besides those, for KV of ended requests (HostTier)
  Replacement tier_evicts = Replacement::least_recent; ///< which of these leave first
  double tier_pin_share = 1; ///< of these, how many the sessions of one salt (an API key) may pin at most; from 0 to 1
  /// Layers whose weights a plan may stream. A device that copies asynchronously keeps a second image of them in pinned
  /// host memory, which costs that much memory for the machine's lifetime. A streamed layer that is not listed is
  /// copied from where ModelWeights has it: the result is the same, but the host waits for the copy.
  LayerSet staged;
  Limits limits;
  /// The most tokens that one iteration passes again because their KV is nowhere (a placement with
  /// PrefixStates::passed), in addition to the batch's: the buffers have rows for them.
  Tokens rebuilt{0};
  /// Device blocks, besides those for KV, that hold hidden states between the layer that keeps them and the link
  /// (`hidden_in_flight`), or that a layer gives back (`KvReach::while_computing`). With fewer a layer waits; if none
  /// is free its states are given up.
  LayerBlocks hidden_blocks{0};
  /// Layers with a window or a state give back blocks that no later token reads. The engine's geometry then has groups
  /// (`kv_groups_of`). Refused with a host tier.
  bool gives_back = false;
  LinkRates link;
  FaultPlan faults{};
  std::shared_ptr<RecordStore> records{}; ///< a disk below the host tier; null: there is none
  /// Times the disk's reads; several threads call it. Empty: the system's clock that never goes back.
  std::function<Seconds()> disk_clock{};
  /// For a GPU; a CPU has only one implementation.
  Products products = Products::invariant;
  bool graphs = true;      ///< for a GPU: small iterations are launched as graphs, if the driver can
  bool skips_idle = false; ///< time with nothing to run passes at once

  /// The most rows of an iteration: the batch's and the rebuilt.
  [[nodiscard]] std::int64_t rows() const { return (limits.batch_tokens + rebuilt).count(); }
};

} // namespace sluice
