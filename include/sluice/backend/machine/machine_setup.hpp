// SPDX-License-Identifier: Apache-2.0
// MachineSetup: what a machine is made with, apart from weights and a model's code.
#pragma once

#include "sluice/backend/machine/fault.hpp"
#include "sluice/backend/machine/link_rates.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/decoder/products.hpp"
#include "sluice/view/view.hpp"

#include <cstdint>

namespace sluice {

struct MachineSetup {
  Bytes device_memory{0}; ///< weights, slots, KV and buffers, all together
  LayerBlocks host_blocks{0};
  /// Layers whose weights a plan may stream. A device that copies by itself keeps their images a second time, in the
  /// host's memory that it copies from: so much more of that, for as long as the machine is there. A layer that streams
  /// and is not named is copied from where ModelWeights has it: the bytes are the same, but the host waits for them.
  LayerSet staged;
  Limits limits;
  /// The most tokens that one iteration passes again because their KV is nowhere (a placement with
  /// PrefixStates::passed), on top of the batch's: the buffers have rows for them.
  Tokens rebuilt{0};
  /// Device blocks beside those for KV, in which hidden states lie between the layer that keeps them and the link
  /// (`hidden_in_flight`). With fewer a layer waits, and with none that are free its states are given up.
  LayerBlocks hidden_blocks{0};
  LinkRates link;
  FaultPlan faults{};
  /// Of a GPU; a processor has one way.
  Products products = Products::invariant;
  bool graphs = true;      ///< of a GPU: small iterations are launched as graphs, where its driver can
  bool skips_idle = false; ///< time with nothing to run passes at once

  /// The most rows of an iteration: the batch's and the rebuilt.
  [[nodiscard]] std::int64_t rows() const { return (limits.batch_tokens + rebuilt).count(); }
};

} // namespace sluice
