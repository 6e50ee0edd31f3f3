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

namespace sluice {

/// Makes the blocks that this layer writes writable, and checks that all others are readable.
inline void open_layer(MachineCore& core, int layer) {
  for (const ScheduledRequest& scheduled : core.batch.requests()) {
    KvSequence& sequence = core.sequence(scheduled);
    if (sequence.lost || !scheduled.uses(layer)) continue;
    auto& table = sequence.tables[static_cast<std::size_t>(layer)];
    for (std::int64_t block = 0; block < scheduled.blocks; ++block) {
      KvBlock& entry = table[static_cast<std::size_t>(block)];
      const bool appended = scheduled.fresh > 0 && (block + 1) * core.block_tokens > scheduled.held;
      if (appended && core.store.state(entry) == BlockState::clean) core.store.reopen(entry);
      SLUICE_ASSERT(appended ? core.store.writable(entry) : core.store.readable(entry),
                    "a layer computes on blocks that no other work writes");
    }
  }
}

namespace detail {

inline void close_block(MachineCore& core, const ScheduledRequest& scheduled, KvSequence& sequence, int layer,
                        std::int64_t block) {
  KvStore& store = core.store;
  KvBlock& entry = sequence.tables[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)];
  entry.tokens = static_cast<std::int32_t>(std::min(core.block_tokens, scheduled.total() - block * core.block_tokens));
  const bool full = entry.tokens == core.block_tokens;
  switch (scheduled.place(layer, block)) {
  case KvPlace::device:
    if (full && store.writable(entry)) store.seal(entry);
    break;
  case KvPlace::nowhere:
    store.release(entry);
    break;
  case KvPlace::host:
    if (entry.leaves && !entry.queued && store.state(entry) == BlockState::sending) break;
    if (store.state(entry) == BlockState::clean) {
      if (!scheduled.row->holding.written_back) {
        leave(core, entry);
        break;
      }
      store.give_up_copy(entry); // all of it is sent again (Pie)
    }
    if (full && !entry.passing && store.writable(entry)) store.seal(entry);
    core.schedule.send(core.sequences.ref(sequence, layer, block), true);
    break;
  }
}

} // namespace detail

/// Closes a layer after its launch: seals full blocks, returns those that were on the device for this layer only, and
/// sends what leaves, hidden states included.
inline void close_layer(MachineCore& core, int layer) {
  for (const ScheduledRequest& scheduled : core.batch.requests()) {
    KvSequence& sequence = core.sequence(scheduled);
    if (sequence.lost || !scheduled.uses(layer)) continue;
    for (std::int64_t block = 0; block < scheduled.blocks; ++block)
      detail::close_block(core, scheduled, sequence, layer, block);
    close_hidden(core, sequence, layer);
  }
}

} // namespace sluice
