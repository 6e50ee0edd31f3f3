// SPDX-License-Identifier: Apache-2.0
// engine_setup: an engine's setup on this machine, from the flags, the model and the division of memory. KvKeeping:
// what layers keep of a request there.
#pragma once

#include "sluice/model/decoder/weights.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"
#include "sluice/world/local/memory.hpp"

#include "engines/setup.hpp"
#include "engines/system.hpp"
#include "run/costs.hpp"
#include "run/options.hpp"

#include <memory>
#include <span>
#include <string>

namespace running {

/// The memory that the flags ask for.
sluice::WantedMemory wanted_memory(const Options& options);

/// Sets up the machine for a system that recomputes KV, if this one does: rows for the tokens of `most` blocks, and
/// memory for hidden states on their way to the host, unless these stay on the device.
void rebuild(sluice::MachineSetup& setup, const engines::System& system, const sluice::ModelShape& shape,
             sluice::LayerBlocks most);

/// What layers keep of a request on this machine.
struct KvKeeping {
  std::shared_ptr<const sluice::KvLayers> groups{}; ///< null: every layer keeps all blocks
  std::string text{};                               ///< which of the two, in one line; empty if all layers are alike

  [[nodiscard]] sluice::KvBlocks blocks() const { return groups == nullptr ? sluice::KvBlocks{} : groups->blocks; }
};

/// Why the system needs all blocks of layers that could give some back; null if it does not.
const char* needs_all_blocks(const engines::System& system, const sluice::KvBlocks& kept);

/// Windows and states give back what no later token reads, and `setup` says so, unless the backend, a host tier or the
/// system needs all blocks. Call it after `rebuild`.
KvKeeping keep_kv(const Options& options, const engines::System& system, const sluice::ModelWeights& weights,
                  sluice::MachineSetup& setup);

/// `options`: what the engine does with KV that the host keeps. `costs`' device gets the divided memories. `requests`:
/// the requests that the memory was divided for. `kept`: what it was divided by.
engines::Setup engine_setup(const Options& options, const sluice::MachineSetup& setup,
                            const sluice::ModelWeights& weights, std::span<const sluice::RequestSpec> requests,
                            const sluice::LocalMemory& memory, Costs& costs, const KvKeeping& kept = {});

} // namespace running
