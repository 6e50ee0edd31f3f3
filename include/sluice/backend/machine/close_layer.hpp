// SPDX-License-Identifier: Apache-2.0
// open_layer, close_layer: what a layer's computation does to the states of its blocks.
#pragma once

#include "sluice/backend/machine/hidden_states.hpp"
#include "sluice/backend/machine/machine_core.hpp"
#include "sluice/backend/machine/settle.hpp"
#include "sluice/core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// Makes blocks that this layer writes writable, and checks that all others can be read.
inline void open_layer(MachineCore& core, int layer) {
  for (const Part& part : core.batch.parts()) {
    KvSequence& sequence = core.sequence(part);
    if (sequence.lost || !part.uses(layer)) continue;
    auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
    for (std::int64_t block = 0; block < part.blocks; ++block) {
      KvCell& cell = cells[static_cast<std::size_t>(block)];
      const bool appended = part.fresh > 0 && (block + 1) * core.block_tokens > part.held;
      if (appended && core.store.state(cell) == BlockState::clean) core.store.reopen(cell);
      SLUICE_ASSERT(appended ? core.store.writable(cell) : core.store.readable(cell),
                    "a layer computes on blocks that nobody else writes");
    }
  }
}

namespace detail {

inline void close_block(MachineCore& core, const Part& part, KvSequence& sequence, int layer, std::int64_t block) {
  KvStore& store = core.store;
  KvCell& cell = sequence.cells[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)];
  cell.tokens = static_cast<std::int32_t>(std::min(core.block_tokens, part.total() - block * core.block_tokens));
  const bool full = cell.tokens == core.block_tokens;
  switch (part.place(layer, block)) {
  case KvPlace::device:
    if (full && store.writable(cell)) store.seal(cell);
    break;
  case KvPlace::nowhere:
    store.release(cell);
    break;
  case KvPlace::host:
    if (cell.leaves && !cell.queued && store.state(cell) == BlockState::sending) break;
    if (store.state(cell) == BlockState::clean) {
      if (!part.row->holding.written_back) {
        leave(core, cell);
        break;
      }
      store.give_up_copy(cell); // all of it goes back (Pie)
    }
    if (full && !cell.passing && store.writable(cell)) store.seal(cell);
    core.schedule.send(core.sequences.ref(sequence, layer, block), true);
    break;
  }
}

} // namespace detail

/// Closes a layer that the device has been given: full blocks are sealed, what only passed goes back, what is to leave
/// is sent, and so are hidden states.
inline void close_layer(MachineCore& core, int layer) {
  for (const Part& part : core.batch.parts()) {
    KvSequence& sequence = core.sequence(part);
    if (sequence.lost || !part.uses(layer)) continue;
    for (std::int64_t block = 0; block < part.blocks; ++block) detail::close_block(core, part, sequence, layer, block);
    close_hidden(core, sequence, layer);
  }
}

} // namespace sluice
