// SPDX-License-Identifier: Apache-2.0
// Before an iteration: compares where each block is with where the engine's rows want it.
#pragma once

#include "sluice/backend/cpu/machine.hpp"

#include <algorithm>

namespace sluice {

/// Frees the memory of requests that are gone, starts dropped ones anew, and sends what is to leave of those that do
/// not compute.
inline void CpuMachine::settle(const Iteration& iteration) {
  const View& view = iteration.view;
  const auto computes = [&iteration](Slot slot) {
    return std::any_of(iteration.batch.begin(), iteration.batch.end(),
                       [slot](const Claim& claim) { return claim.slot == slot && claim.tokens.count() > 0; });
  };
  const auto holds = [](std::span<const Slot> list, Slot slot) {
    return std::find(list.begin(), list.end(), slot) != list.end();
  };
  sequences_.for_each([&](Slot slot, KvSequence& sequence) {
    const bool alive = holds(view.running, slot) || holds(view.preempted, slot);
    if (!alive || view.row(slot).id != sequence.id) sequences_.leave(sequence);
  });
  for (const std::span<const Slot> list : {view.running, view.preempted})
    for (const Slot slot : list) {
      const RequestRow& row = view.row(slot);
      KvSequence& sequence = sequences_.of(slot, row.id);
      if (row.computed.count() < sequence.computed) sequences_.drop(sequence);
      settle_cells(row, sequence, computes(slot));
    }
}

inline void CpuMachine::settle_cells(const RequestRow& row, KvSequence& sequence, bool computes) {
  const std::int64_t held = blocks_of(sequence.computed);
  const std::int64_t head = row.holding.head_blocks(row.blocks, setup_.limits.block_tokens).count();
  for (int layer = 0; layer < layers_; ++layer) {
    auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
    for (std::int64_t block = 0; block < std::min(held, static_cast<std::int64_t>(cells.size())); ++block) {
      KvCell& cell = cells[static_cast<std::size_t>(block)];
      cell.awaited = cell.first = false;
      switch (place(row, head, layer, block)) {
      case Place::nowhere:
        store_.release(cell);
        break;
      case Place::host:
        // KV that a layer of this iteration still reads leaves after that layer; what was fetched ahead is used.
        if (cell.on_device() && !computes)
          evict(sequence, layer, block);
        else if (cell.leaves && (cell.queued || store_.state(cell) == BlockState::arriving))
          cell.queued = cell.leaves = false;
        break;
      case Place::device:
        if (cell.on_device()) to_device(row, sequence, layer, block);
        break;
      }
    }
  }
}

/// Keeps a block that is there on the device: whatever was begun with it before is undone, and the host has a copy as
/// the holding says.
inline void CpuMachine::to_device(const RequestRow& row, KvSequence& sequence, int layer, std::int64_t block) {
  KvCell& cell = sequence.cells[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)];
  const bool copied = block < row.holding.copied_blocks(row.blocks, setup_.limits.block_tokens).count();
  if (store_.state(cell) == BlockState::sending && cell.leaves && !cell.queued)
    return; // it is fetched once the host has it
  if (cell.leaves) cell.queued = cell.leaves = false;
  cell.passing = false;
  if (store_.state(cell) == BlockState::clean && cell.tokens < block_tokens_) store_.reopen(cell);
  if (store_.state(cell) != BlockState::arriving && !copied) store_.give_up_copy(cell);
  if (copied && store_.state(cell) == BlockState::full) schedule_.send(sequences_.ref(sequence, layer, block), false);
}

/// Sends a block that is there to the host, where alone it is to be.
inline void CpuMachine::evict(KvSequence& sequence, int layer, std::int64_t block) {
  KvCell& cell = sequence.cells[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)];
  if (store_.state(cell) == BlockState::arriving)
    cell.leaves = true; // sent as soon as it has arrived
  else if (store_.state(cell) == BlockState::clean)
    leave(cell);
  else if (!(store_.state(cell) == BlockState::sending && cell.leaves && !cell.queued))
    schedule_.send(sequences_.ref(sequence, layer, block), true);
}

/// Collects what each claim computes.
inline void CpuMachine::gather(const Iteration& iteration) {
  parts_.clear();
  for (const Claim& claim : iteration.batch) {
    const RequestRow& row = iteration.view.row(claim.slot);
    KvSequence& sequence = sequences_.of(claim.slot, row.id);
    Part part;
    part.slot = claim.slot;
    part.row = &row;
    SLUICE_ASSERT(row.computed.count() == sequence.computed, "the engine and the machine know of the same KV");
    part.held = sequence.computed;
    part.fresh = claim.tokens.count();
    part.blocks = row.blocks.count();
    part.head = row.holding.head_blocks(row.blocks, setup_.limits.block_tokens).count();
    part.samples = part.fresh > 0 && claim.tokens == row.pending();
    part.whole = sequence.preempted && iteration.first_blocks > 0;
    for (auto& layer : sequence.cells) layer.resize(std::max(layer.size(), static_cast<std::size_t>(part.blocks)));
    find_rebuilt(part, sequence);
    parts_.push_back(part);
  }
  sequences_.for_each([](Slot, KvSequence& sequence) { sequence.preempted = false; });
  for (const Slot slot : iteration.view.preempted)
    if (KvSequence* sequence = sequences_.find(slot)) sequence->preempted = true;
  lay_out_rows();
}

/// Finds KV that neither memory has and that is made again: the oldest tokens pass the layers once more, up to the last
/// in which their KV is missing. A request that sits the iteration out makes only what it is to keep.
inline void CpuMachine::find_rebuilt(Part& part, KvSequence& sequence) {
  const std::int64_t held = blocks_of(part.held);
  for (int layer = 0; layer < layers_; ++layer) {
    const auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
    for (std::int64_t block = held; block-- > 0;) {
      if (cells[static_cast<std::size_t>(block)].exists()) continue;
      if (part.fresh == 0 && place(*part.row, part.head, layer, block) == Place::nowhere) continue;
      part.rebuilt = std::max(part.rebuilt, std::min(part.held, (block + 1) * block_tokens_));
      part.last_rebuilt = layer;
      break;
    }
  }
}

/// Lays out the iteration's rows: all new tokens, then those that are passed again, the latest to stop first.
inline void CpuMachine::lay_out_rows() {
  std::int64_t again = 0;
  for (Part& part : parts_) {
    if (again + part.rebuilt > setup_.rebuilt.count()) {
      lose(part.slot, no_rows);
      part.rebuilt = 0;
      part.last_rebuilt = -1;
    }
    again += part.rebuilt;
  }
  row_tokens_.clear();
  row_positions_.clear();
  const auto add = [this](const Part& part, std::int64_t from, std::int64_t count) {
    const std::vector<std::int32_t>& tokens = requests_.at(index(part.row->id)).tokens;
    SLUICE_ASSERT(from + count <= static_cast<std::int64_t>(tokens.size()), "a request has the tokens that it claims");
    for (std::int64_t i = from; i < from + count; ++i) {
      row_tokens_.push_back(tokens[static_cast<std::size_t>(i)]);
      row_positions_.push_back(static_cast<std::int32_t>(i));
    }
  };
  rebuilding_.clear();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    part.first_row = static_cast<int>(row_tokens_.size());
    add(part, part.held, part.fresh);
    if (part.rebuilt > 0) rebuilding_.push_back(i);
  }
  fresh_rows_ = static_cast<int>(row_tokens_.size());
  SLUICE_ASSERT(fresh_rows_ <= setup_.limits.batch_tokens.count(), "a batch keeps to its limit of tokens");
  std::stable_sort(rebuilding_.begin(), rebuilding_.end(),
                   [this](std::size_t a, std::size_t b) { return parts_[a].last_rebuilt > parts_[b].last_rebuilt; });
  for (const std::size_t i : rebuilding_) {
    parts_[i].rebuilt_row = static_cast<int>(row_tokens_.size());
    add(parts_[i], 0, parts_[i].rebuilt);
  }
}

/// Finds device blocks for what is new and stays. Where they are short, what was fetched ahead goes first; then KV that
/// is to leave anyway goes before it is read once more, and is fetched for that like any other: by the plan there is
/// room then.
inline void CpuMachine::make_room(Lock& lock) {
  std::int64_t stay = 0;
  std::vector<std::int64_t> pass(static_cast<std::size_t>(layers_), 0);
  each_cell([&](const Part& part, KvSequence&, int layer, std::int64_t block, const KvCell& cell) {
    if (cell.on_device() && !cell.leaves) return;
    if (place(*part.row, part.head, layer, block) == Place::device)
      ++stay;
    else if (part.uses(layer))
      ++pass[static_cast<std::size_t>(layer)];
  });
  const std::int64_t wanted = stay + *std::max_element(pass.begin(), pass.end()) + schedule_.weights_blocks();
  std::int64_t leaving = 0;
  sequences_.for_each([&](Slot, const KvSequence& sequence) {
    for (const auto& cells : sequence.cells)
      leaving +=
          std::count_if(cells.begin(), cells.end(), [](const KvCell& cell) { return cell.on_device() && cell.leaves; });
  });
  if (wanted > store_.free_blocks() + leaving) {
    drop_prefetched();
    each_cell([&](const Part& part, KvSequence& sequence, int layer, std::int64_t block, const KvCell& cell) {
      if (cell.on_device() && place(*part.row, part.head, layer, block) == Place::host) evict(sequence, layer, block);
    });
  }
  each_cell([&](const Part& part, KvSequence& sequence, int layer, std::int64_t block, KvCell& cell) {
    if (cell.exists() || block * block_tokens_ < part.held) return; // what is rebuilt takes its block with its layer
    if (place(*part.row, part.head, layer, block) == Place::device && !sequence.lost)
      if (!take_block(lock, cell, -1)) lose(part.slot, no_room);
  });
}

/// Sends away what was fetched for another iteration than this one. (All of it: one block less here is one block more
/// that a layer needs.)
inline void CpuMachine::drop_prefetched() {
  sequences_.for_each([this](Slot, KvSequence& sequence) {
    for (int layer = 0; layer < layers_; ++layer) {
      auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
      for (std::size_t block = 0; block < cells.size(); ++block)
        if (cells[block].on_device() && cells[block].passing && !cells[block].queued)
          evict(sequence, layer, static_cast<std::int64_t>(block));
    }
  });
}

/// Takes an empty device block, as soon as there is one; false where there will never be one.
inline bool CpuMachine::take_block(Lock& lock, KvCell& cell, int layer) {
  const Seconds asked = now();
  bool taken = store_.take(cell);
  while (!taken) {
    copies_->wake();
    if (schedule_.stuck()) break;
    schedule_.wait(lock, layer, true);
    taken = store_.take(cell);
  }
  stall_s_ += (now() - asked).count();
  return taken;
}

/// Asks for everything that the link has to bring for this iteration, and for what it may bring for the next.
inline void CpuMachine::need_blocks() {
  needs_.clear();
  for (const Part& part : parts_) {
    KvSequence& sequence = *sequences_.find(part.slot);
    int previous = -1;
    for (int layer = 0; layer < layers_; ++layer) need_layer(part, sequence, layer, previous);
    if (part.fresh == 0) continue;
    // What passed in this iteration, for the next token.
    for (int layer = 0; layer < layers_; ++layer) {
      if (!part.row->holding.host.contains(layer)) continue;
      KvNeed next;
      next.slot = index(part.slot);
      next.generation = sequence.generation;
      next.layer = layer;
      next.position = layer + layers_;
      next.previous = previous;
      for (std::int64_t block = 0; block < std::min(part.head, part.blocks); ++block)
        next.blocks.push_back(static_cast<std::int32_t>(block));
      previous = layer + layers_;
      needs_.push_back(std::move(next));
    }
  }
}

/// One layer of one part: counts blocks that are not there and have to be fetched, and blocks that the layer makes.
inline void CpuMachine::need_layer(const Part& part, KvSequence& sequence, int layer, int& previous) {
  KvNeed stays, passes;
  stays.slot = index(part.slot);
  stays.generation = sequence.generation;
  stays.layer = stays.position = layer;
  stays.idle = !part.uses(layer);
  stays.first = part.whole || stays.idle;
  stays.passing = false;
  stays.copies = part.row->holding.copied_blocks(part.row->blocks, setup_.limits.block_tokens).count();
  stays.previous = previous;
  passes = stays;
  passes.first = passes.idle = false;
  passes.passing = true;
  auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
  for (std::int64_t block = 0; block < part.blocks; ++block) {
    KvCell& cell = cells[static_cast<std::size_t>(block)];
    const Place where = place(*part.row, part.head, layer, block);
    if (!cell.exists()) { // made by this layer
      if (part.uses(layer)) ++schedule_.reserved(layer, where != Place::device);
      continue;
    }
    const bool leaving = cell.on_device() && cell.leaves;
    if (cell.on_device() && !leaving && store_.state(cell) != BlockState::arriving) continue;
    const bool arriving = cell.on_device() && !leaving;
    KvNeed& need = where == Place::device ? stays : passes;
    if (!arriving) {
      if (!part.uses(layer) && where != Place::device) continue; // not computed: its KV stays put
      need.blocks.push_back(static_cast<std::int32_t>(block));
    }
    if (!part.uses(layer)) {
      if (!arriving) ++schedule_.reserved_idle();
      continue;
    }
    cell.awaited = true;
    ++schedule_.missing(layer);
    if (!arriving) ++schedule_.reserved(layer, where != Place::device);
    if (need.first && !arriving) {
      cell.first = true;
      ++schedule_.first_missing();
    }
  }
  for (KvNeed* need : {&stays, &passes})
    if (!need->blocks.empty()) {
      previous = layer;
      needs_.push_back(std::move(*need));
    }
}

inline void CpuMachine::need_weights() {
  weight_needs_.clear();
  for (int layer = 0; layer < layers_; ++layer) {
    if (weights_.missing(layer) > 0) weight_needs_.push_back({layer, true});
    if (weights_.streams(layer) && !weights_.is_coming(layer)) weight_needs_.push_back({layer, false});
  }
  for (int layer = 0; layer < layers_; ++layer)
    if (weights_.streams(layer)) weight_needs_.push_back({layer + layers_, false});
}

} // namespace sluice
