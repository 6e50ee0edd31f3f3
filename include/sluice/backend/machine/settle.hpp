// SPDX-License-Identifier: Apache-2.0
// settle: before an iteration, compares where each block is with where the engine's rows want it.
#pragma once

#include "sluice/backend/backend.hpp"
#include "sluice/backend/machine/hidden_states.hpp"
#include "sluice/backend/machine/machine_core.hpp"
#include "sluice/core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// Sends a block that is there to the host, where alone it is to be.
inline void evict(MachineCore& core, KvSequence& sequence, int layer, std::int64_t block) {
  KvCell& cell = sequence.cells[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)];
  if (core.store.state(cell) == BlockState::arriving)
    cell.leaves = true; // sent as soon as it has arrived
  else if (core.store.state(cell) == BlockState::clean)
    leave(core, cell);
  else if (!(core.store.state(cell) == BlockState::sending && cell.leaves && !cell.queued))
    core.schedule.send(core.sequences.ref(sequence, layer, block), true);
}

namespace detail {

/// Keeps a block that is there on the device: whatever was begun with it before is undone, and the host has a copy as
/// the holding says.
inline void keep_on_device(MachineCore& core, const RequestRow& row, KvSequence& sequence, int layer,
                           std::int64_t block) {
  KvStore& store = core.store;
  KvCell& cell = sequence.cells[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)];
  const bool copied = block < row.holding.copied_blocks(row.blocks, core.setup.limits.block_tokens).count();
  if (store.state(cell) == BlockState::sending && cell.leaves && !cell.queued)
    return; // it is fetched once the host has it
  if (cell.leaves) cell.queued = cell.leaves = false;
  cell.passing = false;
  if (store.state(cell) == BlockState::clean && cell.tokens < core.block_tokens) store.reopen(cell);
  if (store.state(cell) != BlockState::arriving && !copied) store.give_up_copy(cell);
  if (copied && store.state(cell) == BlockState::full)
    core.schedule.send(core.sequences.ref(sequence, layer, block), false);
}

inline void settle_cells(MachineCore& core, const RequestRow& row, KvSequence& sequence, bool computes) {
  const std::int64_t held = core.blocks_of(sequence.computed);
  const std::int64_t head = core.head_of(row);
  for (int layer = 0; layer < core.layers; ++layer) {
    auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
    for (std::int64_t block = 0; block < std::min(held, static_cast<std::int64_t>(cells.size())); ++block) {
      KvCell& cell = cells[static_cast<std::size_t>(block)];
      cell.awaited = cell.first = false;
      switch (kv_place(row, head, layer, block)) {
      case KvPlace::nowhere:
        core.store.release(cell);
        break;
      case KvPlace::host:
        // KV that a layer of this iteration still reads leaves after that layer; what was fetched ahead is used.
        if (cell.on_device() && !computes)
          evict(core, sequence, layer, block);
        else if (cell.leaves && (cell.queued || core.store.state(cell) == BlockState::arriving))
          cell.queued = cell.leaves = false;
        break;
      case KvPlace::device:
        if (cell.on_device()) keep_on_device(core, row, sequence, layer, block);
        break;
      }
    }
  }
}

/// Finds KV that neither memory has and that is made again: the oldest tokens pass the layers once more, up to the last
/// in which their KV is missing (plan_hidden: or begin where their hidden states are). A request that sits the
/// iteration out makes only what it is to keep.
inline void find_rebuilt(const MachineCore& core, Part& part, const KvSequence& sequence) {
  const std::int64_t held = core.blocks_of(part.held);
  for (int layer = 0; layer < core.layers; ++layer) {
    const auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
    for (std::int64_t block = held; block-- > 0;) {
      if (cells[static_cast<std::size_t>(block)].exists()) continue;
      if (part.fresh == 0 && part.place(layer, block) == KvPlace::nowhere) continue;
      part.rebuilt = std::max(part.rebuilt, std::min(part.held, (block + 1) * core.block_tokens));
      part.made.insert(layer);
      break;
    }
  }
}

} // namespace detail

/// Frees the memory of requests that are gone, starts dropped ones anew, and sends what is to leave of those that do
/// not compute.
inline void settle(MachineCore& core, const Iteration& iteration) {
  const View& view = iteration.view;
  const auto computes = [&iteration](Slot slot) {
    return std::any_of(iteration.batch.begin(), iteration.batch.end(),
                       [slot](const Claim& claim) { return claim.slot == slot && claim.tokens.count() > 0; });
  };
  const auto holds = [](std::span<const Slot> list, Slot slot) {
    return std::find(list.begin(), list.end(), slot) != list.end();
  };
  core.sequences.for_each([&](Slot slot, KvSequence& sequence) {
    const bool alive = holds(view.running, slot) || holds(view.preempted, slot);
    if (!alive || view.row(slot).id != sequence.id) core.sequences.leave(sequence);
  });
  for (const std::span<const Slot> list : {view.running, view.preempted})
    for (const Slot slot : list) {
      const RequestRow& row = view.row(slot);
      KvSequence& sequence = core.sequences.of(slot, row.id);
      if (row.computed.count() < sequence.computed) core.sequences.drop(sequence);
      detail::settle_cells(core, row, sequence, computes(slot));
      settle_hidden(core, row, sequence, computes(slot));
    }
}

/// Collects what each claim computes. `tokens_of(part)`: the tokens of its sequence.
template <class TokensOf>
void gather(MachineCore& core, const Iteration& iteration, const TokensOf& tokens_of) {
  core.batch.clear();
  for (const Claim& claim : iteration.batch) {
    const RequestRow& row = iteration.view.row(claim.slot);
    KvSequence& sequence = core.sequences.of(claim.slot, row.id);
    Part part;
    part.slot = claim.slot;
    part.row = &row;
    SLUICE_ASSERT(row.computed.count() == sequence.computed, "the engine and the machine know of the same KV");
    part.held = sequence.computed;
    part.fresh = claim.tokens.count();
    part.blocks = row.blocks.count();
    part.head = core.head_of(row);
    part.samples = part.fresh > 0 && claim.tokens == row.pending();
    part.whole = sequence.preempted && iteration.first_blocks > 0;
    for (int layer = 0; layer < core.layers; ++layer) {
      auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
      cells.resize(std::max(cells.size(), static_cast<std::size_t>(part.blocks)));
    }
    detail::find_rebuilt(core, part, sequence);
    plan_hidden(core, part, sequence);
    core.batch.add(part);
  }
  core.sequences.for_each([](Slot, KvSequence& sequence) { sequence.preempted = false; });
  for (const Slot slot : iteration.view.preempted)
    if (KvSequence* sequence = core.sequences.find(slot)) sequence->preempted = true;
  core.batch.lay_out_rows(core.setup.rebuilt.count(), tokens_of, [&core](const Part& part) {
    core.lose(part.slot, "the buffers have no rows for its tokens that are passed again");
    plan_no_hidden(core.sequence(part));
  });
  SLUICE_ASSERT(core.batch.fresh_rows() <= core.setup.limits.batch_tokens.count(),
                "a batch keeps to its limit of tokens");
}

} // namespace sluice
