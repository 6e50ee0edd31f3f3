// SPDX-License-Identifier: Apache-2.0
// Hidden states of a machine's sequences: which the host is to have, which a layer keeps, and which begin a layer.
#pragma once

#include "sluice/backend/machine/machine_core.hpp"
#include "sluice/core/assert.hpp"
#include "sluice/cost/rebuild.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {

// A hidden state is kept when the layer that it enters is launched: for new tokens, and for a prefix that passes the
// layer again. It lies in a block like those of K and V, which crosses the link and is then no longer on the device.
// Where K and V of a prefix are nowhere, the layer that has the prefix's hidden states on the host begins with them;
// without them the prefix passes the layers below once more. So hidden states are never missed, but for their speed:
// where there is no room for them they are given up.

/// Of a layer, so many of the oldest tokens are to have hidden states on the host, of `total`.
[[nodiscard]] inline std::int64_t hidden_wanted(const MachineCore& core, const RequestRow& row, int layer,
                                                std::int64_t total) {
  if (core.store.shape().hidden_tokens() == 0) return 0;
  if (row.holding.saved.contains(layer)) return total;
  return row.holding.hidden.contains(layer) ? std::min(total, core.head_of(row) * core.block_tokens) : 0;
}
/// Blocks that hidden states of `tokens` tokens have.
[[nodiscard]] inline std::int64_t hidden_blocks(const MachineCore& core, std::int64_t tokens) {
  const std::int64_t each = core.store.shape().hidden_tokens();
  return tokens == 0 ? 0 : (tokens + each - 1) / each;
}
/// Whether a layer's hidden states of the oldest `tokens` are there.
[[nodiscard]] inline bool has_hidden(const KvSequence& sequence, int layer, std::int64_t tokens) {
  const HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
  return !hidden.failed && hidden.kept >= tokens;
}

/// Keeps the hidden states of the oldest `tokens`, in whole blocks, and no others.
inline void trim_hidden(MachineCore& core, KvSequence& sequence, int layer, std::int64_t tokens) {
  auto& cells = sequence.hidden_cells(layer);
  HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
  const std::int64_t blocks = hidden_blocks(core, tokens);
  while (static_cast<std::int64_t>(cells.size()) > blocks) {
    core.store.release(cells.back());
    cells.pop_back();
  }
  hidden.kept = std::min(hidden.kept, blocks * core.store.shape().hidden_tokens());
  hidden.wanted = hidden.kept;
  if (blocks == 0) hidden.failed = false;
}

/// Before an iteration: frees hidden states that the engine no longer wants, but not those of which K and V are made
/// now, to stay. Of a request that does not compute, none stays on the device.
inline void settle_hidden(MachineCore& core, const RequestRow& row, KvSequence& sequence, bool computes) {
  for (int layer = 0; layer < core.layers; ++layer) {
    auto& cells = sequence.hidden_cells(layer);
    if (cells.empty()) continue;
    if (sequence.hidden[static_cast<std::size_t>(layer)].failed) trim_hidden(core, sequence, layer, 0);
    const auto& kv = sequence.cells[static_cast<std::size_t>(layer)];
    const bool makes_kv =
        !row.holding.nowhere.contains(layer) && sequence.computed > 0 && (kv.empty() || !kv.front().exists());
    if (!makes_kv) trim_hidden(core, sequence, layer, hidden_wanted(core, row, layer, sequence.computed));
    for (KvCell& cell : cells) {
      cell.awaited = cell.first = cell.restores = false;
      if (core.store.state(cell) == BlockState::arriving) {
        cell.leaves = !computes;
      } else if (core.store.state(cell) == BlockState::clean && !computes) {
        leave(core, cell);
      }
    }
  }
}

/// What an iteration does with the hidden states of a part whose missing K and V are known: which layers its prefix
/// passes, where the prefix begins anew, and which states are kept on the way.
inline void plan_hidden(MachineCore& core, Part& part, KvSequence& sequence) {
  LayerSet there;
  if (part.rebuilt > 0)
    for (int layer = 0; layer <= part.made.highest(); ++layer)
      if (has_hidden(sequence, layer, part.rebuilt)) there.insert(layer);
  part.passed = passed_layers(part.made, there);
  part.restored = there & (part.made | part.passed);
  for (int layer = 0; layer < core.layers; ++layer) {
    HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
    hidden.wanted = hidden.kept;
    hidden.reserved = 0;
    auto& cells = sequence.hidden_cells(layer);
    const std::int64_t read = part.restored.contains(layer) ? hidden_blocks(core, part.rebuilt) : 0;
    for (std::size_t block = 0; block < cells.size(); ++block) {
      cells[block].restores = static_cast<std::int64_t>(block) < read;
      // Fetched ahead for a layer that does not begin with them after all.
      if (!cells[block].restores && core.store.state(cells[block]) == BlockState::clean) leave(core, cells[block]);
    }
    const std::int64_t wanted = hidden_wanted(core, *part.row, layer, part.total());
    if (part.rebuilds(layer)) hidden.wanted = std::max(hidden.wanted, std::min(part.rebuilt, wanted));
    const bool older_have = hidden.wanted == part.held; // none in between is missing
    if (part.fresh > 0 && older_have) hidden.wanted = std::max(hidden.wanted, wanted);
  }
}
/// The prefix of a part that has no rows for it is not rebuilt, and so keeps nothing.
inline void plan_no_hidden(KvSequence& sequence) {
  for (HiddenTokens& hidden : sequence.hidden) hidden.wanted = hidden.kept;
  for (std::size_t layer = 0; layer < sequence.hidden.size(); ++layer)
    for (KvCell& cell : sequence.hidden_cells(static_cast<int>(layer))) cell.restores = false;
}

/// Device blocks that a layer has to take for the hidden states that it keeps of a sequence.
[[nodiscard]] inline std::int64_t hidden_to_take(const MachineCore& core, const KvSequence& sequence, int layer) {
  const HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
  if (hidden.wanted <= hidden.kept) return 0;
  const auto& cells = sequence.hidden_cells(layer);
  const std::int64_t first = hidden.kept / core.store.shape().hidden_tokens();
  std::int64_t taken = 0; // the last one, if it is not full, may be on the device still
  if (first < static_cast<std::int64_t>(cells.size())) {
    const KvCell& last = cells[static_cast<std::size_t>(first)];
    if (core.store.state(last) == BlockState::filling) taken = 1;
  }
  return hidden_blocks(core, hidden.wanted) - first - taken;
}

/// The layer has been launched: what it kept goes to the host.
inline void close_hidden(MachineCore& core, KvSequence& sequence, int layer) {
  HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
  if (hidden.wanted <= hidden.kept) return;
  auto& cells = sequence.hidden_cells(layer);
  const std::int64_t each = core.store.shape().hidden_tokens();
  for (std::int64_t block = hidden.kept / each; block < hidden_blocks(core, hidden.wanted); ++block) {
    cells[static_cast<std::size_t>(block)].tokens =
        static_cast<std::int32_t>(std::min(each, hidden.wanted - block * each));
    core.schedule.send(core.sequences.ref(sequence, core.layers + layer, block), true);
  }
  hidden.kept = hidden.wanted;
}

} // namespace sluice
