// SPDX-License-Identifier: Apache-2.0
// open_on_host: a layer of a request whose new token the host attends, over KV in its own memory (NEO).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/world/machine/batch.hpp"
#include "sluice/world/machine/block.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// Opens the host block that the layer appends to, and checks that only the host has all others. No copy moves any of
/// them while the layer computes.
inline void open_on_host(MachineCore& core, const ScheduledRequest& scheduled, int layer) {
  BlockTable& table = core.sequence(scheduled).tables[static_cast<std::size_t>(layer)];
  const std::int64_t block = scheduled.held / core.block_tokens, tokens = scheduled.held % core.block_tokens + 1;
  [[maybe_unused]] const bool opened = core.store.append_on_host(table, block, tokens);
  [[maybe_unused]] const std::span<const BlockRun> runs = table.runs();
  SLUICE_ASSERT(opened && std::all_of(runs.begin(), runs.end(), [](const BlockRun& run) { return run.on_host(); }),
                "the host attends blocks that only it has");
  if (tokens == core.block_tokens) table.join(); // `reconcile` does not look at a parked layer
}

} // namespace sluice
