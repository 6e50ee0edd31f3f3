// SPDX-License-Identifier: Apache-2.0
// engine_setup: an engine's setup on this machine, from the flags, the model and the division of memory.
#pragma once

#include "sluice/model/decoder/weights.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"
#include "sluice/world/local/memory.hpp"

#include "engines/setup.hpp"
#include "engines/system.hpp"
#include "run/costs.hpp"
#include "run/options.hpp"

#include <span>

namespace running {

/// The memory that the flags ask for.
sluice::WantedMemory wanted_memory(const Options& options);

/// Sets up the machine for a system that recomputes KV, if this one does: rows for the tokens of `most` blocks, and
/// memory for hidden states on their way to the host, unless these stay on the device.
void rebuild(sluice::MachineSetup& setup, const engines::System& system, const sluice::ModelShape& shape,
             sluice::LayerBlocks most);

/// `options`: what the engine does with KV that the host keeps. `costs`' device gets the divided memories. `requests`:
/// the requests that the memory was divided for.
engines::Setup engine_setup(const Options& options, const sluice::MachineSetup& setup,
                            const sluice::ModelWeights& weights, std::span<const sluice::RequestSpec> requests,
                            const sluice::LocalMemory& memory, Costs& costs);

} // namespace running
