// SPDX-License-Identifier: Apache-2.0
// The layers of an iteration: wait, compute, give back; then the tokens.
#pragma once

#include "sluice/backend/cpu/machine.hpp"

#include <algorithm>
#include <cmath>

namespace sluice {

inline void CpuMachine::compute_layer(int layer) {
  LayerTimes& times = times_[static_cast<std::size_t>(layer)];
  LayerWeights weights;
  {
    Lock lock{schedule_.mutex};
    const double waited = stall_s_;
    await_layer(lock, layer);
    times.stall_s = stall_s_ - waited;
    times.cause = times.stall_s > 0 ? StallCause::link : StallCause::none;
    schedule_.starts(layer);
    open_blocks(layer);
    if (weights_.ready(layer)) weights = weights_.weights(layer); // else all requests are lost: nothing is computed
  }
  copies_->wake();
  point_at_blocks(layer);
  int rows = fresh_rows_;
  int stored = 0;
  for (const std::size_t i : rebuilding_) {
    const Part& part = parts_[i];
    if (part.last_rebuilt > layer) rows += static_cast<int>(part.rebuilt);
    if (part.last_rebuilt == layer) stored += static_cast<int>(part.rebuilt);
  }
  times.start_s = (now() - start_).count();
  if (!sequence_rows_.empty()) decoder_->layer(weights, sequence_rows_, rows, stored);
  times.end_s = (now() - start_).count();
  {
    Lock lock{schedule_.mutex};
    close_blocks(layer);
    weights_.computed(layer);
    schedule_.ends(layer);
  }
  copies_->wake();
}

/// Waits until all that the layer needs is on the device, blocks for what it makes itself included.
inline void CpuMachine::await_layer(Lock& lock, int layer) {
  release_lost(layer);
  for (const Part& part : parts_) {
    if (!part.uses(layer)) continue;
    KvSequence& sequence = *sequences_.find(part.slot);
    for (KvCell& cell : sequence.cells[static_cast<std::size_t>(layer)]) {
      if (cell.exists() || sequence.lost) continue;
      const std::int64_t block = &cell - sequence.cells[static_cast<std::size_t>(layer)].data();
      if (block >= part.blocks) break;
      if (!take_block(lock, cell, layer)) {
        lose(part.slot, no_room);
        release_lost(layer);
        break;
      }
      cell.passing = place(*part.row, part.head, layer, block) != Place::device;
      --schedule_.reserved(layer, cell.passing);
    }
  }
  if (schedule_.arrived(layer)) return;
  const Seconds asked = now();
  while (!schedule_.arrived(layer)) {
    copies_->wake();
    if (release_lost(layer)) continue;
    if (schedule_.stuck()) {
      give_up(layer);
      break;
    }
    schedule_.wait(lock, layer, false);
  }
  stall_s_ += (now() - asked).count();
}

/// Gives the memory of lost requests to the others, and waits no longer for what they needed from `layer` on; returns
/// whether there was any. Called between layers: nothing computes with their blocks.
inline bool CpuMachine::release_lost(int layer) {
  bool any = false;
  for (const Part& part : parts_) {
    KvSequence& sequence = *sequences_.find(part.slot);
    if (!sequence.lost || sequence.released) continue;
    any = true;
    for (int l = 0; l < layers_; ++l) {
      auto& cells = sequence.cells[static_cast<std::size_t>(l)];
      for (std::int64_t block = 0; block < part.blocks; ++block) {
        KvCell& cell = cells[static_cast<std::size_t>(block)];
        const bool passes = place(*part.row, part.head, l, block) != Place::device;
        const bool to_come = !cell.on_device() || cell.leaves;
        if (part.uses(l) && l >= layer && (!cell.exists() || (cell.awaited && to_come)))
          --schedule_.reserved(l, passes);
        else if (!part.uses(l) && cell.exists() && !passes && to_come)
          --schedule_.reserved_idle();
        schedule_.no_longer_awaited(cell, l);
      }
    }
    sequences_.abandon(sequence);
  }
  if (any) copies_->wake();
  return any;
}

/// Nothing can bring what the layer still waits for: the requests whose KV that is are lost. It does not happen where
/// the ledger and the two memories agree.
inline void CpuMachine::give_up(int layer) {
  for (const Part& part : parts_) {
    KvSequence& sequence = *sequences_.find(part.slot);
    const auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
    if (std::any_of(cells.begin(), cells.end(), [](const KvCell& cell) { return cell.awaited; }))
      lose(part.slot, no_room);
  }
  if (!weights_.ready(layer))
    for (const Part& part : parts_)
      lose(part.slot, schedule_.weights_failed() ? "a transfer of its model's weights failed twice"
                                                 : "its model's weights find no room on the device");
  release_lost(layer);
}

/// Makes blocks that this layer writes writable, and checks that all others can be read.
inline void CpuMachine::open_blocks(int layer) {
  for (const Part& part : parts_) {
    KvSequence& sequence = *sequences_.find(part.slot);
    if (sequence.lost || !part.uses(layer)) continue;
    auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
    for (std::int64_t block = 0; block < part.blocks; ++block) {
      KvCell& cell = cells[static_cast<std::size_t>(block)];
      const bool appended = part.fresh > 0 && (block + 1) * block_tokens_ > part.held;
      if (appended && store_.state(cell) == BlockState::clean) store_.reopen(cell);
      SLUICE_ASSERT(appended ? store_.writable(cell) : store_.readable(cell),
                    "a layer computes on blocks that nobody else writes");
    }
  }
}

/// Tells the decoder where K and V of the layer are.
inline void CpuMachine::point_at_blocks(int layer) {
  pointers_.resize(parts_.size());
  sequence_rows_.clear();
  const Lock lock{schedule_.mutex}; // cells of other layers change meanwhile, in the same vectors
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    KvSequence& sequence = *sequences_.find(part.slot);
    if (sequence.lost || !part.uses(layer)) continue;
    const auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
    std::vector<std::byte*>& pointers = pointers_[i];
    pointers.clear();
    std::int64_t made = 0; // blocks that are rebuilt: the oldest
    for (std::int64_t block = 0; block < part.blocks; ++block) {
      const KvCell& cell = cells[static_cast<std::size_t>(block)];
      if (cell.tokens == 0 && block * block_tokens_ < part.rebuilt) made = block + 1;
      pointers.push_back(reinterpret_cast<std::byte*>(store_.data(cell)));
    }
    if (part.fresh > 0)
      sequence_rows_.push_back({part.first_row, static_cast<int>(part.fresh), static_cast<int>(part.held),
                                pointers.data(), static_cast<int>(part.held)});
    if (layer > part.last_rebuilt) continue;
    // The decoder stores what is missing; the other rows only pass, for the sake of later layers.
    const int stored = static_cast<int>(std::min(part.rebuilt, made * block_tokens_));
    const int all = static_cast<int>(part.rebuilt);
    if (stored > 0) sequence_rows_.push_back({part.rebuilt_row, stored, 0, pointers.data(), 0});
    if (stored < all) sequence_rows_.push_back({part.rebuilt_row + stored, all - stored, stored, pointers.data(), all});
  }
}

/// Closes a computed layer: full blocks are sealed, what only passed goes back, what is to leave is sent.
inline void CpuMachine::close_blocks(int layer) {
  for (const Part& part : parts_) {
    KvSequence& sequence = *sequences_.find(part.slot);
    if (sequence.lost || !part.uses(layer)) continue;
    for (std::int64_t block = 0; block < part.blocks; ++block) close_block(part, sequence, layer, block);
  }
}

inline void CpuMachine::close_block(const Part& part, KvSequence& sequence, int layer, std::int64_t block) {
  KvCell& cell = sequence.cells[static_cast<std::size_t>(layer)][static_cast<std::size_t>(block)];
  cell.tokens = static_cast<std::int32_t>(std::min(block_tokens_, part.total() - block * block_tokens_));
  const bool full = cell.tokens == block_tokens_;
  switch (place(*part.row, part.head, layer, block)) {
  case Place::device:
    if (full && store_.writable(cell)) store_.seal(cell);
    break;
  case Place::nowhere:
    store_.release(cell);
    break;
  case Place::host:
    if (cell.leaves && !cell.queued && store_.state(cell) == BlockState::sending) break;
    if (store_.state(cell) == BlockState::clean) {
      if (!part.row->holding.written_back) {
        leave(cell);
        break;
      }
      store_.give_up_copy(cell); // all of it goes back (Pie)
    }
    if (full && !cell.passing && store_.writable(cell)) store_.seal(cell);
    schedule_.send(sequences_.ref(sequence, layer, block), true);
    break;
  }
}

/// A clean block leaves at once: its copy is all that remains.
inline void CpuMachine::leave(KvCell& cell) {
  std::optional<Copy> nothing;
  [[maybe_unused]] const bool left = store_.send(cell, true, nothing);
  SLUICE_ASSERT(left && !nothing, "a clean block has a copy");
  cell.queued = cell.leaves = cell.passing = cell.awaited = false;
}

inline void CpuMachine::lose(Slot slot, std::string_view reason) {
  KvSequence& sequence = *sequences_.find(slot);
  if (sequence.lost) return;
  sequence.lost = true;
  sequence.reason = reason;
}

inline void CpuMachine::adopt_weights(Lock& lock, const WeightsPlan& plan) {
  if (!weights_.differs(plan)) return;
  schedule_.halt_weights(lock);
  [[maybe_unused]] const Status status = weights_.adopt(plan);
  SLUICE_ASSERT(status, "address space for slots");
  store_.decommit_free();
}

/// Chooses the next token of each request that has nothing left to compute. A request that is lost by now is reported
/// after this iteration; one that is lost while tokens are chosen, after the next.
inline void CpuMachine::sample() {
  std::vector<int> rows;
  std::vector<const Part*> samplers;
  {
    const Lock lock{schedule_.mutex}; // a lane may lose a request meanwhile
    losing_.clear();
    sequences_.for_each([this](Slot slot, const KvSequence& sequence) {
      if (sequence.lost) losing_.push_back(slot);
    });
    for (const Part& part : parts_) {
      KvSequence& sequence = *sequences_.find(part.slot);
      if (sequence.lost) continue;
      sequence.computed = part.total();
      if (!part.samples) continue;
      rows.push_back(part.first_row + static_cast<int>(part.fresh) - 1);
      samplers.push_back(&part);
    }
  }
  if (rows.empty()) return;
  const auto vocabulary = static_cast<std::size_t>(decoder_->config().shape.vocabulary);
  logits_.resize(rows.size() * vocabulary);
  decoder_->logits(rows, logits_);
  const std::vector<int>& ends = decoder_->config().end_tokens;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Part& part = *samplers[i];
    const RequestId id = part.row->id;
    CpuRequest& request = requests_.at(index(id));
    const std::span<const float> logits{logits_.data() + i * vocabulary, vocabulary};
    if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); })) {
      outcomes_.push_back(
          {part.slot, true, "its logits are not all finite: the model's weights, or too large for f32"});
      continue;
    }
    const auto position = static_cast<std::int64_t>(request.tokens.size());
    const std::int32_t token = sluice::sample(logits, request.sampling, request.sequence, position);
    request.tokens.push_back(token);
    if (listener_.logits) listener_.logits(id, position, logits);
    if (listener_.token) listener_.token(id, token);
    if (request.ends && std::find(ends.begin(), ends.end(), token) != ends.end())
      outcomes_.push_back({part.slot, false, {}});
  }
}

/// Collects what came over the link, in the iteration's time.
inline void CpuMachine::tell_link() {
  schedule_.take_spans(spans_);
  link_times_.clear();
  const auto since_start = [this](LinkSpan::Time when) {
    return std::chrono::duration<double>(when - began_).count() + (skipped_ - start_).count();
  };
  for (const LinkSpan& span : spans_)
    link_times_.push_back({span.slot, span.weights, span.position, since_start(span.start), since_start(span.end)});
}

/// Reports the requests that were lost when tokens were chosen, running or not.
inline void CpuMachine::tell_lost() {
  const Lock lock{schedule_.mutex};
  schedule_.forgive_weights();
  for (const Slot slot : losing_) {
    KvSequence& sequence = *sequences_.find(slot);
    outcomes_.push_back({slot, true, sequence.reason});
    sequences_.leave(sequence);
  }
}

} // namespace sluice
