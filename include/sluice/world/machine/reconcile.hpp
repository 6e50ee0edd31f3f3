// SPDX-License-Identifier: Apache-2.0
// reconcile: before an iteration, compares each block's place with the place that the engine's rows demand.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/world/backend.hpp"
#include "sluice/world/machine/hidden_states.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// Moves a block of K and V to the host and releases its device copy.
inline void evict(MachineCore& core, KvSequence& sequence, int layer, std::int64_t block) {
  core.schedule.evict(core.sequences.ref(sequence, layer, block),
                      sequence.tables[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)]);
}

namespace detail {

/// Keeps a block on the device: cancels an earlier move of it, and makes or drops the host's copy as the plan demands.
/// Returns whether nothing is left to do. (A block that is being sent away is fetched when the host has it.)
inline bool keep_on_device(MachineCore& core, KvSequence& sequence, int layer, std::int64_t block, bool copied) {
  KvStore& store = core.store;
  KvBlock& entry = sequence.tables[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)];
  if (!store.step(entry, BlockEvent::keep)) return false;
  if (entry.clean() && (!copied || entry.tokens < core.block_tokens)) store.step(entry, BlockEvent::give_up_copy);
  if (copied && entry.state == BlockState{BlockPlace::device} && entry.tokens == core.block_tokens)
    core.schedule.copy_ahead(core.sequences.ref(sequence, layer, block), entry);
  return entry.state == BlockState{copied ? BlockPlace::both : BlockPlace::device};
}

/// One layer of one sequence. Afterwards it is `resident` or `parked` if every block is where the plan wants it.
inline void reconcile_layer(MachineCore& core, const RequestRow& row, KvSequence& sequence, int layer, bool computes) {
  auto& table = sequence.tables[static_cast<std::size_t>(layer)];
  const std::int64_t held = std::min(core.blocks_of(sequence.computed), static_cast<std::int64_t>(table.size()));
  const std::int64_t head = std::min(core.head_of(row), held);
  const std::int64_t away = row.holding.away().contains(layer) ? head : 0; // blocks that are not to stay
  bool resident = !row.holding.away().contains(layer), parked = away == held && held > 0;
  // Layers that are resident do not count their blocks' tokens.
  const auto tokens = [&](std::int64_t block) {
    return static_cast<std::uint16_t>(std::min(core.block_tokens, sequence.computed - block * core.block_tokens));
  };
  for (std::int64_t block = 0; block < away; ++block) {
    KvBlock& entry = table[static_cast<std::size_t>(block)];
    entry.awaited = entry.first = false;
    if (row.holding.nowhere.contains(layer)) {
      if (entry.exists()) core.store.step(entry, BlockEvent::release);
      parked = false;
    } else if (entry.on_device()) {
      if (entry.state.writable()) entry.tokens = tokens(block);
      // KV that a layer of this iteration still reads leaves after that layer; prefetched KV is used.
      if (!computes)
        evict(core, sequence, layer, block);
      else if (entry.leaves())
        core.store.step(entry, BlockEvent::use);
    }
    parked = parked && entry.on_host();
  }
  for (std::int64_t block = away; block < held; ++block) {
    KvBlock& entry = table[static_cast<std::size_t>(block)];
    entry.awaited = entry.first = false;
    if (entry.state.writable()) entry.tokens = tokens(block);
    if (!entry.on_device() || !keep_on_device(core, sequence, layer, block, block < sequence.settled_copies))
      resident = false;
  }
  if (resident)
    sequence.resident.insert(layer);
  else
    sequence.known[static_cast<std::size_t>(layer)] = 0;
  if (parked) sequence.parked.insert(layer);
}

inline void reconcile_blocks(MachineCore& core, const RequestRow& row, KvSequence& sequence, bool computes) {
  const std::int64_t copies = row.holding.copied_blocks(row.blocks, core.setup.limits.block_tokens).count();
  if (sequence.settled_for != row.holding || sequence.settled_copies != copies ||
      sequence.settled_computing != computes) {
    sequence.look_again();
    sequence.settled_for = row.holding;
    sequence.settled_copies = copies;
    sequence.settled_computing = computes;
  }
  (LayerSet::all(core.layers) - sequence.resident - sequence.parked).for_each([&](int layer) {
    reconcile_layer(core, row, sequence, layer, computes);
  });
}

/// Finds KV that is in neither memory and must be rebuilt: the oldest tokens pass the layers again, up to the last
/// layer that misses their KV (or start from their hidden states: plan_hidden). A request that sits the iteration out
/// rebuilds only what it will keep.
inline void find_rebuilt(const MachineCore& core, ScheduledRequest& scheduled, const KvSequence& sequence) {
  const std::int64_t held = core.blocks_of(scheduled.held);
  (LayerSet::all(core.layers) - sequence.resident - sequence.parked).for_each([&](int layer) {
    const auto& table = sequence.tables[static_cast<std::size_t>(layer)];
    for (std::int64_t block = held; block-- > 0;) {
      if (table[static_cast<std::size_t>(block)].exists()) continue;
      if (scheduled.fresh == 0 && scheduled.place(layer, block) == KvPlace::nowhere) continue;
      scheduled.rebuilt = std::max(scheduled.rebuilt, std::min(scheduled.held, (block + 1) * core.block_tokens));
      scheduled.made.insert(layer);
      break;
    }
  });
}

} // namespace detail

/// Frees the memory of requests that are gone, restarts dropped ones, and evicts blocks of requests that do not
/// compute.
inline void reconcile(MachineCore& core, const Iteration& iteration) {
  const View& view = iteration.view;
  constexpr std::uint8_t alive = 1, computing = 2;
  core.marks.assign(core.sequences.slots(), 0); // by slot: a search per request would cost their square
  const auto mark = [&core](Slot slot, std::uint8_t what) {
    if (index(slot) >= core.marks.size()) core.marks.resize(index(slot) + 1);
    core.marks[index(slot)] |= what;
  };
  for (const std::span<const Slot> list : {view.running, view.preempted})
    for (const Slot slot : list) mark(slot, alive);
  for (const Claim& claim : iteration.batch)
    if (claim.tokens.count() > 0) mark(claim.slot, computing);
  core.sequences.for_each([&](Slot slot, KvSequence& sequence) {
    if ((core.marks[index(slot)] & alive) == 0 || view.row(slot).id != sequence.id) core.sequences.leave(sequence);
  });
  for (const std::span<const Slot> list : {view.running, view.preempted})
    for (const Slot slot : list) {
      const RequestRow& row = view.row(slot);
      KvSequence& sequence = core.sequences.of(slot, row.id);
      const bool computes = (core.marks[index(slot)] & computing) != 0;
      if (row.computed.count() < sequence.computed) core.sequences.drop(sequence);
      detail::reconcile_blocks(core, row, sequence, computes);
      reconcile_hidden(core, row, sequence, computes);
    }
}

/// Collects what each scheduled request computes. `tokens_of(scheduled)`: the tokens of its sequence.
template <class TokensOf>
void gather(MachineCore& core, const Iteration& iteration, const TokensOf& tokens_of) {
  core.batch.clear();
  for (const Claim& claim : iteration.batch) {
    const RequestRow& row = iteration.view.row(claim.slot);
    KvSequence& sequence = core.sequences.of(claim.slot, row.id);
    ScheduledRequest scheduled;
    scheduled.slot = claim.slot;
    scheduled.row = &row;
    SLUICE_ASSERT(row.computed.count() == sequence.computed, "the engine and the machine know of the same KV");
    scheduled.held = sequence.computed;
    scheduled.fresh = claim.tokens.count();
    scheduled.blocks = row.blocks.count();
    scheduled.head = core.head_of(row);
    scheduled.samples = scheduled.fresh > 0 && claim.tokens == row.pending();
    scheduled.whole = sequence.preempted && iteration.first_blocks > 0;
    if (const auto blocks = static_cast<std::size_t>(scheduled.blocks); sequence.tables[0].size() < blocks)
      for (int layer = 0; layer < core.layers; ++layer) sequence.tables[static_cast<std::size_t>(layer)].resize(blocks);
    detail::find_rebuilt(core, scheduled, sequence);
    plan_hidden(core, scheduled, sequence);
    core.batch.add(scheduled);
  }
  core.sequences.for_each([](Slot, KvSequence& sequence) { sequence.preempted = false; });
  for (const Slot slot : iteration.view.preempted)
    if (KvSequence* sequence = core.sequences.find(slot)) sequence->preempted = true;
  core.batch.lay_out_rows(core.setup.rebuilt.count(), tokens_of, [&core](const ScheduledRequest& scheduled) {
    core.lose(scheduled.slot, "the buffers have no rows for its tokens that are passed again");
    plan_no_hidden(core.sequence(scheduled));
  });
  SLUICE_ASSERT(core.batch.fresh_rows() <= core.setup.limits.batch_tokens.count(),
                "a batch keeps to its limit of tokens");
}

} // namespace sluice
