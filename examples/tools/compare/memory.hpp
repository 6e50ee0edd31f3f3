// SPDX-License-Identifier: Apache-2.0
// The memories of the simulated machine: the device's KV budget, the host's memory and those below.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/view/view.hpp"

#include "compare/comparison.hpp"
#include "compare/source.hpp"
#include "compare/world.hpp"

#include <string>
#include <vector>

namespace compared {

/// Returns the limits of a batch: the flags', else those of the trace's experiment, else defaults.
sluice::Limits limits_of(const MachineOptions& machine, const Source& source);

/// Removes the systems that keep all weights on the device, if all systems were requested and the KV that is asked for
/// fits only without weights. Returns what the caption says about it; empty: none is left out.
std::string leave_out_whole_weights(const Options& options, const World& world, const sluice::Limits& limits,
                                    std::vector<const System*>& systems);

/// The KV memory of one device.
struct Budget {
  sluice::TokenBlocks blocks{0}; ///< of one request that fills it; negative: by how much the weights are too large
  sluice::LayerBlocks room{0};
};

/// Removes the systems that serve only models whose layers are alike, if all systems were requested and this model's
/// differ. Returns what the caption says about it; empty: none is left out. Error: such a system was named.
sluice::Expected<std::string> leave_out_equal_layers(const Options& options, const World& world,
                                                     std::vector<const System*>& systems);

/// Returns the KV budget of one device. Error: its memory does not hold the budget and the weights that these systems
/// keep there.
sluice::Expected<Budget> kv_budget(const Options& options, const Source& source, const World& world,
                                   const std::vector<const System*>& systems, const sluice::Limits& limits);

/// Sets the sizes of the model's blocks and of all memories, and says in the report which are below the host's. Error:
/// --host-memory is less than a block.
sluice::Status set_memories(const Options& options, const World& world, const Budget& budget, Comparison& c);

} // namespace compared
