// SPDX-License-Identifier: Apache-2.0
// LinkWaits: where the computing thread waits for the link: for room, and for what a layer needs.
#pragma once

#include "sluice/backend/machine/hidden_states.hpp"
#include "sluice/backend/machine/machine_core.hpp"
#include "sluice/backend/machine/settle.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// The waits of an iteration, how long they took, and what becomes of requests whose wait has no end. Its callers hold
/// the schedule's mutex.
class LinkWaits {
 public:
  using Lock = std::unique_lock<std::mutex>;

  /// `wake`: the link may have something to move. `now`: the machine's clock.
  LinkWaits(MachineCore& core, std::function<void()> wake, std::function<Seconds()> now)
      : core_(&core), wake_(std::move(wake)), now_(std::move(now)) {}

  void begin() { stalled_ = Seconds{0}; }
  /// Since the iteration began.
  [[nodiscard]] Seconds stalled() const { return stalled_; }

  /// Finds device blocks for what is new and stays. Where they are short, what was fetched ahead goes first; then KV
  /// that is to leave anyway goes before it is read once more, and is fetched for that like any other: by the plan
  /// there is room then.
  void make_room(Lock& lock) {
    if (blocks_wanted() > core_->store.free_blocks() + blocks_leaving()) {
      drop_prefetched();
      core_->each_cell(
          [this](const Part& part, KvSequence& sequence, int layer, std::int64_t block, const KvCell& cell) {
            if (cell.on_device() && part.place(layer, block) == KvPlace::host) evict(*core_, sequence, layer, block);
          });
    }
    core_->each_cell([&](const Part& part, KvSequence& sequence, int layer, std::int64_t block, KvCell& cell) {
      // What is rebuilt takes its block with its layer.
      if (cell.exists() || block * core_->block_tokens < part.held || sequence.lost) return;
      if (part.place(layer, block) == KvPlace::device && !take_block(lock, cell, -1)) core_->lose(part.slot, no_room);
    });
  }

  /// Waits until hidden states with which the layer begins are on the device: all that are still to be read, or as many
  /// as there is room for, for their blocks are free once they have been read. False where none is left.
  bool await_hidden(Lock& lock, int layer) {
    if (!core_->batch.restores(layer)) return false;
    const Seconds asked = now_();
    for (;;) {
      wake_();
      release_lost(layer);
      bool there = false, missing = false;
      each_restored(layer, [&](const Part&, const KvCell& cell) { (cell.awaited ? missing : there) = true; });
      const bool stuck = missing && core_->schedule.stuck();
      if (!missing || (stuck && there)) {
        stalled_ += now_() - asked;
        return there;
      }
      if (stuck) {
        each_restored(layer, [this](const Part& part, const KvCell&) { core_->lose(part.slot, no_room); });
        continue;
      }
      core_->schedule.wait(lock, layer, true);
    }
  }

  /// Waits until all that the layer needs is on the device, or on its way in an order that the device keeps; blocks for
  /// what the layer makes itself included.
  void await_layer(Lock& lock, int layer) {
    release_lost(layer);
    for (const Part& part : core_->batch.parts()) {
      if (!part.uses(layer)) continue;
      KvSequence& sequence = core_->sequence(part);
      auto& cells = sequence.cells[static_cast<std::size_t>(layer)];
      for (std::int64_t block = 0; block < part.blocks && !sequence.lost; ++block) {
        KvCell& cell = cells[static_cast<std::size_t>(block)];
        if (cell.exists()) continue;
        if (!take_block(lock, cell, layer)) {
          core_->lose(part.slot, no_room);
          release_lost(layer);
          break;
        }
        cell.passing = part.place(layer, block) != KvPlace::device;
        --core_->schedule.room().reserved(layer, cell.passing);
      }
    }
    await_arrivals(lock, layer);
    // Last, so that they take no block which the layer's K and V come to.
    for (const Part& part : core_->batch.parts())
      if (part.uses(layer) && !core_->sequence(part).lost) open_hidden(lock, core_->sequence(part), layer);
  }

 private:
  static constexpr std::string_view no_room = "its KV finds no room on the device";

  void await_arrivals(Lock& lock, int layer) {
    if (core_->schedule.arrived(layer)) return;
    const Seconds asked = now_();
    while (!core_->schedule.arrived(layer)) {
      wake_();
      if (release_lost(layer) || core_->schedule.arrived(layer)) continue;
      if (core_->schedule.stuck()) {
        give_up(layer);
        break;
      }
      core_->schedule.wait(lock, layer, false);
    }
    stalled_ += now_() - asked;
  }
  /// Takes an empty device block, as soon as there is one; false where there will never be one.
  bool take_block(Lock& lock, KvCell& cell, int layer) {
    return try_until_stuck(lock, layer, [&] { return core_->store.take(cell); });
  }
  /// Tries until `attempt()` has succeeded, or can never.
  template <class Attempt>
  bool try_until_stuck(Lock& lock, int layer, const Attempt& attempt) {
    if (attempt()) return true;
    const Seconds asked = now_();
    wake_(); // which may already bring what is waited for, where the link has no thread of its own
    bool done = attempt();
    while (!done && !core_->schedule.stuck()) {
      core_->schedule.wait(lock, layer, true);
      wake_();
      done = attempt();
    }
    stalled_ += now_() - asked;
    return done;
  }

  /// Visits what of the layer's hidden states is still to be read, of requests that are not lost.
  template <class Visit>
  void each_restored(int layer, const Visit& visit) {
    for (const Part& part : core_->batch.parts()) {
      KvSequence& sequence = core_->sequence(part);
      if (sequence.lost || !part.restored.contains(layer)) continue;
      for (const KvCell& cell : sequence.hidden_cells(layer))
        if (cell.restores) visit(part, cell);
    }
  }
  /// Takes blocks for the hidden states that the layer keeps of a sequence. Where there will never be room for them,
  /// the layer's are given up, those of earlier tokens too.
  void open_hidden(Lock& lock, KvSequence& sequence, int layer) {
    HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
    if (hidden.wanted <= hidden.kept) return;
    auto& cells = sequence.hidden_cells(layer);
    const auto blocks = static_cast<std::size_t>(hidden_blocks(*core_, hidden.wanted));
    cells.resize(std::max(cells.size(), blocks));
    auto block = static_cast<std::size_t>(hidden.kept / core_->store.shape().hidden_tokens());
    for (bool opened = true; opened && block < blocks; ++block) {
      KvCell& cell = cells[block];
      // Nothing but states that leave is waited for: what else may make room is not known to.
      const auto hopeless = [&] {
        return !cell.exists() && (!core_->store.has_place_for_hidden() || !core_->schedule.sends_hidden());
      };
      opened =
          try_until_stuck(lock, layer, [&] { return core_->store.append(cell) || hopeless(); }) && cell.on_device();
      if (!opened) {
        trim_hidden(*core_, sequence, layer, 0);
        break;
      }
      cell.passing = true;
      cell.queued = cell.leaves = false; // of the last iteration's, what waited to be sent goes with this one's
    }
    core_->schedule.room().reserved(layer, true) -= std::exchange(hidden.reserved, 0);
  }

  [[nodiscard]] std::int64_t blocks_wanted() {
    std::int64_t stay = 0;
    pass_.assign(static_cast<std::size_t>(core_->layers), 0);
    core_->each_cell([&](const Part& part, KvSequence&, int layer, std::int64_t block, const KvCell& cell) {
      if (cell.on_device() && !cell.leaves) return;
      if (part.place(layer, block) == KvPlace::device)
        ++stay;
      else if (part.uses(layer))
        ++pass_[static_cast<std::size_t>(layer)];
    });
    // What a layer begins with is not counted: it has been read when what the layer makes takes its blocks.
    for (const Part& part : core_->batch.parts())
      for (int layer = 0; layer < core_->layers; ++layer)
        pass_[static_cast<std::size_t>(layer)] += hidden_to_take(*core_, core_->sequence(part), layer);
    return stay + *std::max_element(pass_.begin(), pass_.end()) + core_->schedule.weights_blocks();
  }
  [[nodiscard]] std::int64_t blocks_leaving() {
    std::int64_t leaving = 0;
    core_->sequences.for_each([&](Slot, const KvSequence& sequence) {
      for (const auto& cells : sequence.cells)
        leaving += std::count_if(cells.begin(), cells.end(),
                                 [](const KvCell& cell) { return cell.on_device() && cell.leaves; });
    });
    return leaving;
  }
  /// Sends away what was fetched for another iteration than this one. (All of it: one block less here is one block more
  /// that a layer needs.)
  void drop_prefetched() {
    core_->sequences.for_each([this](Slot, KvSequence& sequence) {
      for (std::size_t layer = 0; layer < sequence.cells.size(); ++layer) {
        auto& cells = sequence.cells[layer];
        for (std::size_t block = 0; block < cells.size(); ++block)
          if (cells[block].on_device() && cells[block].passing && !cells[block].queued)
            evict(*core_, sequence, static_cast<int>(layer), static_cast<std::int64_t>(block));
      }
    });
  }

  /// Gives the memory of lost requests to the others, and waits no longer for what they needed from `layer` on; returns
  /// whether there was any. Called between layers: nothing that a host computes uses their blocks.
  bool release_lost(int layer) {
    bool any = false;
    LayerRoom& room = core_->schedule.room();
    for (const Part& part : core_->batch.parts()) {
      KvSequence& sequence = core_->sequence(part);
      if (!sequence.lost || sequence.released) continue;
      any = true;
      for (int l = 0; l < core_->layers; ++l) {
        auto& cells = sequence.cells[static_cast<std::size_t>(l)];
        for (std::int64_t block = 0; block < part.blocks; ++block) {
          KvCell& cell = cells[static_cast<std::size_t>(block)];
          const bool passes = part.place(l, block) != KvPlace::device;
          const bool to_come = !cell.on_device() || cell.leaves;
          if (part.uses(l) && l >= layer && (!cell.exists() || (cell.awaited && to_come)))
            --room.reserved(l, passes);
          else if (!part.uses(l) && cell.exists() && !passes && to_come)
            --room.reserved_idle();
          room.no_longer_awaited(cell, l);
        }
        for (KvCell& cell : sequence.hidden_cells(l)) {
          if (cell.awaited && (!cell.on_device() || cell.leaves)) --room.reserved(l, true);
          room.no_longer_awaited(cell, l);
        }
        room.reserved(l, true) -= std::exchange(sequence.hidden[static_cast<std::size_t>(l)].reserved, 0);
      }
      core_->sequences.abandon(sequence);
    }
    if (any) wake_();
    return any;
  }

  /// Nothing can bring what the layer still waits for: the requests whose KV that is are lost. It does not happen where
  /// the ledger and the two memories agree.
  void give_up(int layer) {
    for (const Part& part : core_->batch.parts()) {
      const auto& cells = core_->sequence(part).cells[static_cast<std::size_t>(layer)];
      if (std::any_of(cells.begin(), cells.end(), [](const KvCell& cell) { return cell.awaited; }))
        core_->lose(part.slot, no_room);
    }
    if (!core_->weights.ready(layer))
      for (const Part& part : core_->batch.parts())
        core_->lose(part.slot, core_->schedule.weights_failed() ? "a transfer of its model's weights failed twice"
                                                                : "its model's weights find no room on the device");
    release_lost(layer);
  }

  MachineCore* core_;
  std::function<void()> wake_;
  std::function<Seconds()> now_;
  Seconds stalled_{0};
  std::vector<std::int64_t> pass_; ///< by layer: blocks that are on the device while it computes
};

} // namespace sluice
