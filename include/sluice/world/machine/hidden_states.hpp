// SPDX-License-Identifier: Apache-2.0
// Hidden states of a machine's sequences: which ones stay on the device, which ones the host gets, which ones a layer
// keeps, and which ones a layer starts from.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice {

// A hidden state is kept when the layer that it enters is launched, for new tokens and for a prefix that passes the
// layer again. It lies in a block like those of K and V. The block stays on the device if the plan says so
// (`Holding::states_on_device`), until the plan wants it no more and the layer has read it for the last time; otherwise
// it crosses the link and then leaves the device. If K and V of a prefix are nowhere, the layer starts from the
// prefix's hidden states; without them the prefix passes the earlier layers again. Missing hidden states therefore cost
// only time: without room for them they are given up.

/// How many of the oldest `total` tokens should have this layer's hidden states. With `Holding::next_states` those of
/// the block behind the head are among them: otherwise all of the prefix would pass the layers again once that block is
/// full and joins the head.
[[nodiscard]] inline std::int64_t hidden_wanted(const MachineCore& core, const RequestRow& row, int layer,
                                                std::int64_t total) {
  if (core.store.shape().hidden_tokens() == 0) return 0;
  if (row.holding.saved.contains(layer)) return total;
  if (!row.holding.hidden.contains(layer)) return 0;
  const std::int64_t next = row.holding.next_states ? 1 : 0;
  return std::min(total, (core.head_of(row) + next) * core.block_tokens);
}
/// How many blocks the hidden states of `tokens` tokens take.
[[nodiscard]] inline std::int64_t hidden_blocks(const MachineCore& core, std::int64_t tokens) {
  const std::int64_t each = core.store.shape().hidden_tokens();
  return tokens == 0 ? 0 : (tokens + each - 1) / each;
}
/// Whether the layer's hidden states of the oldest `tokens` exist.
[[nodiscard]] inline bool has_hidden(const KvSequence& sequence, int layer, std::int64_t tokens) {
  const HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
  return !hidden.failed && hidden.kept >= tokens;
}

/// Keeps the hidden states of the oldest `tokens`, in whole blocks, and releases the rest.
inline void trim_hidden(MachineCore& core, KvSequence& sequence, int layer, std::int64_t tokens) {
  BlockTable& table = sequence.hidden_table(layer);
  HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
  const std::int64_t blocks = hidden_blocks(core, tokens);
  table.each(blocks, table.size(), [&](BlockRun& run) { core.store.step(run, BlockEvent::release); });
  table.shrink(blocks);
  hidden.kept = std::min(hidden.kept, blocks * core.store.shape().hidden_tokens());
  hidden.wanted = hidden.kept;
  if (blocks == 0) hidden.failed = false;
}

/// Whether the plan wants the layer's hidden states to stay on the device.
[[nodiscard]] inline bool stays_on_device(const RequestRow& row, int layer) {
  return row.holding.states_on_device && row.holding.hidden.contains(layer);
}
/// Whether a block of hidden states is on the device to stay.
[[nodiscard]] inline bool is_staying(const BlockRun& run) { return run.state == BlockState{BlockPlace::device}; }

/// Before an iteration: frees hidden states that the engine no longer wants, except those from which lasting K and V
/// are made now. A request that does not compute keeps none on the device, except states that stay there. States in the
/// wrong memory are freed, too, unless K and V are made from them now: no published plan moves them.
inline void reconcile_hidden(MachineCore& core, const RequestRow& row, KvSequence& sequence, bool computes) {
  if (!sequence.has_hidden) return;
  bool any = false;
  for (int layer = 0; layer < core.layers; ++layer) {
    BlockTable& table = sequence.hidden_table(layer);
    if (table.empty()) continue;
    if (sequence.hidden[static_cast<std::size_t>(layer)].failed) trim_hidden(core, sequence, layer, 0);
    const BlockTable& kv = sequence.tables[static_cast<std::size_t>(layer)];
    const bool makes_kv =
        !row.holding.nowhere.contains(layer) && sequence.computed > 0 && (kv.empty() || !kv.runs()[0].exists());
    const bool stays = stays_on_device(row, layer);
    const bool elsewhere = std::any_of(table.runs().begin(), table.runs().end(), [stays](const BlockRun& run) {
      return run.exists() && is_staying(run) != stays;
    });
    if (!makes_kv)
      trim_hidden(core, sequence, layer, elsewhere ? 0 : hidden_wanted(core, row, layer, sequence.computed));
    for (BlockRun& run : table.runs()) {
      run.awaited = run.sooner = run.restores = false;
      if (run.state.transfer == BlockTransfer::arriving && computes)
        core.store.step(run, BlockEvent::use);
      else if (run.state.place == BlockPlace::both && !computes) // clean, or arriving
        core.evict(sequence, core.layers + layer, run);
    }
    any = any || !table.empty();
  }
  sequence.has_hidden = any;
}

/// Plans an iteration's use of a request's hidden states, once its missing K and V are known: which layers the prefix
/// passes, where it starts again, and which states are kept on the way.
inline void plan_hidden(MachineCore& core, ScheduledRequest& scheduled, KvSequence& sequence) {
  sequence.has_hidden =
      sequence.has_hidden || (core.store.shape().hidden_tokens() > 0 &&
                              !(scheduled.row->holding.saved | scheduled.row->holding.hidden).empty());
  if (!sequence.has_hidden && scheduled.rebuilt == 0) return;
  LayerSet there;
  if (scheduled.rebuilt > 0)
    for (int layer = 0; layer <= scheduled.made.highest(); ++layer)
      if (has_hidden(sequence, layer, scheduled.rebuilt)) there.insert(layer);
  scheduled.passed = passed_layers(scheduled.made, there);
  scheduled.restored = there & (scheduled.made | scheduled.passed);
  for (int layer = 0; layer < core.layers; ++layer) {
    HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
    hidden.wanted = hidden.kept;
    hidden.reserved = 0;
    hidden.stays = stays_on_device(*scheduled.row, layer);
    const std::int64_t read = scheduled.restored.contains(layer) ? hidden_blocks(core, scheduled.rebuilt) : 0;
    for (BlockRun& run : sequence.hidden_table(layer).runs()) { // each has one block, or is nowhere
      run.restores = run.first < read;
      // Prefetched for a layer that does not start from them after all.
      if (!run.restores && run.clean()) core.evict(sequence, core.layers + layer, run);
    }
    const std::int64_t wanted = hidden_wanted(core, *scheduled.row, layer, scheduled.total());
    if (scheduled.rebuilds(layer)) hidden.wanted = std::max(hidden.wanted, std::min(scheduled.rebuilt, wanted));
    const bool older_have = hidden.wanted == scheduled.held; // no gap in between
    if (scheduled.fresh > 0 && older_have) hidden.wanted = std::max(hidden.wanted, wanted);
  }
}
/// A prefix that has no rows is not rebuilt, so it keeps nothing.
inline void plan_no_hidden(KvSequence& sequence) {
  if (!sequence.has_hidden) return;
  for (HiddenTokens& hidden : sequence.hidden) hidden.wanted = hidden.kept;
  for (std::size_t layer = 0; layer < sequence.hidden.size(); ++layer)
    for (BlockRun& run : sequence.hidden_table(static_cast<int>(layer)).runs()) run.restores = false;
}

/// How many device blocks a layer has to take for the hidden states that it keeps of a sequence.
[[nodiscard]] inline std::int64_t hidden_to_take(const MachineCore& core, const KvSequence& sequence, int layer) {
  const HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
  if (hidden.wanted <= hidden.kept) return 0;
  const BlockTable& table = sequence.hidden_table(layer);
  const std::int64_t first = hidden.kept / core.store.shape().hidden_tokens();
  std::int64_t taken = 0; // the last one, if not full, may still be on the device
  if (first < table.size()) {
    const BlockRun& last = table.runs()[table.find(first)];
    if (last.on_device() && (last.state.writable() || last.queued())) taken = 1;
  }
  return hidden_blocks(core, hidden.wanted) - first - taken;
}

/// A layer has read a block of hidden states: it stays on the device, leaves it because the host has it, or has been
/// read for the last time. In the last case the layer's states are given up before the next iteration.
inline void leave_hidden(MachineCore& core, const BlockRef& ref, BlockRun& run) {
  HiddenTokens& hidden = core.sequences.find(Slot{ref.slot})->hidden[static_cast<std::size_t>(ref.layer - core.layers)];
  if (hidden.stays) return;
  if (!is_staying(run)) return core.schedule.evict(ref, run);
  hidden.failed = true;
  core.store.step(run, BlockEvent::release);
}

/// After the layer's launch: sends the hidden states that it kept to the host, unless they stay.
inline void close_hidden(MachineCore& core, KvSequence& sequence, int layer) {
  HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
  if (hidden.wanted <= hidden.kept) return;
  const std::int64_t each = core.store.shape().hidden_tokens();
  sequence.hidden_table(layer).each(hidden.kept / each, hidden_blocks(core, hidden.wanted), [&](BlockRun& run) {
    run.tokens = static_cast<std::uint16_t>(std::min(each, hidden.wanted - run.first * each));
    if (!hidden.stays) core.evict(sequence, core.layers + layer, run);
  });
  hidden.kept = hidden.wanted;
}

} // namespace sluice
