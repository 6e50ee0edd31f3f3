// SPDX-License-Identifier: Apache-2.0
// open_on_host, close_on_host: a layer of a request whose new token the host attends, over KV in its own memory (NEO).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/world/machine/batch.hpp"
#include "sluice/world/machine/block.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Opens the host block that this layer appends to, and checks that the host has all others.
inline void open_on_host(MachineCore& core, const ScheduledRequest& scheduled, int layer) {
  BlockTable& table = core.sequence(scheduled).tables[static_cast<std::size_t>(layer)];
  [[maybe_unused]] bool all =
      core.store.step(table.one(scheduled.held / core.block_tokens), BlockEvent::append_on_host);
  for (const BlockRun& run : table.runs()) all = all && run.on_host();
  SLUICE_ASSERT(all, "the host attends blocks that only it has");
}
/// Closes it: the block has the new token, and the host all of it.
inline void close_on_host(MachineCore& core, const ScheduledRequest& scheduled, int layer) {
  BlockTable& table = core.sequence(scheduled).tables[static_cast<std::size_t>(layer)];
  BlockRun& run = table.one(scheduled.held / core.block_tokens);
  run.tokens = run.copied = static_cast<std::uint16_t>(scheduled.held % core.block_tokens + 1);
  if (run.tokens == core.block_tokens) table.join(); // the layer is parked, so that `reconcile` does not look at it
}

} // namespace sluice
