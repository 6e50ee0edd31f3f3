// SPDX-License-Identifier: Apache-2.0
// open_layer, close_layer: how computing a layer changes the states of its blocks.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/world/machine/hidden_states.hpp"
#include "sluice/world/machine/machine_core.hpp"
#include "sluice/world/machine/reconcile.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// Opens the blocks that this layer appends to, and checks that all others are readable. (In a layer that is resident
/// nothing else can be.)
inline void open_layer(MachineCore& core, int layer) {
  for (const ScheduledRequest& scheduled : core.batch.requests()) {
    KvSequence& sequence = core.sequence(scheduled);
    if (sequence.lost || sequence.resident.contains(layer) || !scheduled.uses(layer)) continue;
    auto& table = sequence.tables[static_cast<std::size_t>(layer)];
    const std::int64_t appended = scheduled.fresh > 0 ? scheduled.held / core.block_tokens : scheduled.blocks;
    for (std::int64_t block = appended; block < scheduled.blocks; ++block)
      core.store.step(table[static_cast<std::size_t>(block)], BlockEvent::append);
    SLUICE_ASSERT(std::all_of(table.begin(), table.begin() + appended,
                              [](const KvBlock& entry) { return entry.state.readable(); }) &&
                      std::all_of(table.begin() + appended, table.begin() + scheduled.blocks,
                                  [](const KvBlock& entry) { return entry.state.writable(); }),
                  "a layer computes on blocks that no other work writes");
  }
}

/// Closes a layer after its launch: gives back blocks that were on the device for this layer only, and sends what
/// leaves, hidden states included.
inline void close_layer(MachineCore& core, int layer) {
  for (const ScheduledRequest& scheduled : core.batch.requests()) {
    KvSequence& sequence = core.sequence(scheduled);
    if (sequence.lost || !scheduled.uses(layer)) continue;
    if (sequence.has_hidden) close_hidden(core, sequence, layer);
    if (sequence.resident.contains(layer)) continue;
    auto& table = sequence.tables[static_cast<std::size_t>(layer)];
    const bool host = scheduled.row->holding.host.contains(layer);
    for (std::int64_t block = 0; block < scheduled.blocks; ++block) {
      if (host && block < scheduled.head && !scheduled.row->holding.written_back) {
        const std::int64_t full = std::min(scheduled.head, scheduled.held / core.block_tokens) - block;
        if (full > 0)
          block += static_cast<std::int64_t>(core.store.leave(
              std::span{table}.subspan(static_cast<std::size_t>(block), static_cast<std::size_t>(full))));
        if (block == scheduled.blocks) break;
      }
      KvBlock& entry = table[static_cast<std::size_t>(block)];
      entry.tokens =
          static_cast<std::uint16_t>(std::min(core.block_tokens, scheduled.total() - block * core.block_tokens));
      switch (scheduled.place(layer, block)) {
      case KvPlace::device:
        break;
      case KvPlace::nowhere:
        core.store.step(entry, BlockEvent::release);
        break;
      case KvPlace::host:
        if (scheduled.row->holding.written_back && entry.clean()) // all of it is sent again (Pie)
          core.store.step(entry, BlockEvent::give_up_copy);
        evict(core, sequence, layer, block);
        break;
      }
    }
  }
}

} // namespace sluice
