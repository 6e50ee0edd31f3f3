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

/// Moves a resident block to the host and releases its device copy.
inline void evict(MachineCore& core, KvSequence& sequence, int layer, std::int64_t block) {
  KvBlock& entry = sequence.tables[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)];
  if (core.store.state(entry) == BlockState::arriving)
    entry.leaves = true; // sent as soon as it has arrived
  else if (core.store.state(entry) == BlockState::clean)
    leave(core, entry);
  else if (!(core.store.state(entry) == BlockState::sending && entry.leaves && !entry.queued))
    core.schedule.send(core.sequences.ref(sequence, layer, block), true);
}

namespace detail {

/// Keeps a resident block on the device: cancels an earlier move of it, and makes or drops the host's copy as the row's
/// holding demands.
inline void keep_on_device(MachineCore& core, const RequestRow& row, KvSequence& sequence, int layer,
                           std::int64_t block) {
  KvStore& store = core.store;
  KvBlock& entry = sequence.tables[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)];
  const bool copied = block < row.holding.copied_blocks(row.blocks, core.setup.limits.block_tokens).count();
  if (store.state(entry) == BlockState::sending && entry.leaves && !entry.queued)
    return; // it is fetched when the host has it
  if (entry.leaves) entry.queued = entry.leaves = false;
  entry.passing = false;
  if (store.state(entry) == BlockState::clean && entry.tokens < core.block_tokens) store.reopen(entry);
  if (store.state(entry) != BlockState::arriving && !copied) store.give_up_copy(entry);
  if (copied && store.state(entry) == BlockState::full)
    core.schedule.send(core.sequences.ref(sequence, layer, block), false);
}

inline void reconcile_blocks(MachineCore& core, const RequestRow& row, KvSequence& sequence, bool computes) {
  const std::int64_t held = core.blocks_of(sequence.computed);
  const std::int64_t head = core.head_of(row);
  for (int layer = 0; layer < core.layers; ++layer) {
    auto& table = sequence.tables[static_cast<std::size_t>(layer)];
    for (std::int64_t block = 0; block < std::min(held, static_cast<std::int64_t>(table.size())); ++block) {
      KvBlock& entry = table[static_cast<std::size_t>(block)];
      entry.awaited = entry.first = false;
      switch (kv_place(row, head, layer, block)) {
      case KvPlace::nowhere:
        core.store.release(entry);
        break;
      case KvPlace::host:
        // KV that a layer of this iteration still reads leaves after that layer; prefetched KV is used.
        if (entry.on_device() && !computes)
          evict(core, sequence, layer, block);
        else if (entry.leaves && (entry.queued || core.store.state(entry) == BlockState::arriving))
          entry.queued = entry.leaves = false;
        break;
      case KvPlace::device:
        if (entry.on_device()) keep_on_device(core, row, sequence, layer, block);
        break;
      }
    }
  }
}

/// Finds KV that is in neither memory and must be rebuilt: the oldest tokens pass the layers again, up to the last
/// layer that misses their KV (or start from their hidden states: plan_hidden). A request that sits the iteration out
/// rebuilds only what it will keep.
inline void find_rebuilt(const MachineCore& core, ScheduledRequest& scheduled, const KvSequence& sequence) {
  const std::int64_t held = core.blocks_of(scheduled.held);
  for (int layer = 0; layer < core.layers; ++layer) {
    const auto& table = sequence.tables[static_cast<std::size_t>(layer)];
    for (std::int64_t block = held; block-- > 0;) {
      if (table[static_cast<std::size_t>(block)].exists()) continue;
      if (scheduled.fresh == 0 && scheduled.place(layer, block) == KvPlace::nowhere) continue;
      scheduled.rebuilt = std::max(scheduled.rebuilt, std::min(scheduled.held, (block + 1) * core.block_tokens));
      scheduled.made.insert(layer);
      break;
    }
  }
}

} // namespace detail

/// Frees the memory of requests that are gone, restarts dropped ones, and evicts blocks of requests that do not
/// compute.
inline void reconcile(MachineCore& core, const Iteration& iteration) {
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
      detail::reconcile_blocks(core, row, sequence, computes(slot));
      reconcile_hidden(core, row, sequence, computes(slot));
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
    for (int layer = 0; layer < core.layers; ++layer) {
      auto& table = sequence.tables[static_cast<std::size_t>(layer)];
      table.resize(std::max(table.size(), static_cast<std::size_t>(scheduled.blocks)));
    }
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
