// SPDX-License-Identifier: Apache-2.0
// LinkWaits: how the computing thread waits for the link: for room, and for what a layer needs.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/world/machine/block_steps.hpp"
#include "sluice/world/machine/hidden_states.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// An iteration's waits, how long they took, and what happens to requests whose wait would never end. Callers hold the
/// schedule's mutex. Of the device it needs two calls: `wake()`, since the link may have something to move, and
/// `rest(lock)`, since only the link can make progress.
template <class Device>
class LinkWaits {
 public:
  using Lock = std::unique_lock<std::mutex>;

  LinkWaits(MachineCore& core, Device& device) : core_(&core), device_(&device) {}

  void begin() { stalled_ = Seconds{0}; }
  /// Since the iteration began.
  [[nodiscard]] Seconds stalled() const { return stalled_; }

  /// Finds device blocks for new KV that stays. If there are too few, prefetched blocks go first; then blocks that have
  /// to leave anyway leave before they are read again, and are fetched for that read like any others: the plan
  /// guarantees room then.
  void make_room(Lock& lock) {
    if (blocks_wanted() > core_->store.free_blocks() + core_->store.leaving()) {
      drop_prefetched();
      for (const ScheduledRequest& scheduled : core_->batch.requests()) {
        KvSequence& sequence = core_->sequence(scheduled);
        scheduled.row->holding.host.for_each([&](int layer) {
          sequence.tables[static_cast<std::size_t>(layer)].each(0, std::min(scheduled.head, scheduled.blocks),
                                                                [&](BlockRun& run) {
                                                                  if (run.on_device())
                                                                    evict(*core_, sequence, layer, run);
                                                                });
        });
      }
    }
    for (const ScheduledRequest& scheduled : core_->batch.requests()) {
      // Rebuilt KV takes its block together with its layer.
      const std::int64_t held = core_->blocks_of(scheduled.held);
      for (int layer = 0; layer < core_->layers && held < scheduled.blocks; ++layer)
        take_missing(lock, scheduled, layer,
                     scheduled.row->holding.away().contains(layer) ? std::max(held, scheduled.head) : held, -1,
                     [](const BlockRun&) {});
    }
  }

  /// Waits until `done()`, or until nothing moves any more.
  template <class Done>
  void wait_until(Lock& lock, const Done& done) {
    for (device_->wake(); !done() && !core_->schedule.stuck(); device_->wake()) wait(lock, -1, true);
  }
  /// Waits until no copy of weights is under way, and lets none begin.
  void halt_weights(Lock& lock) {
    core_->schedule.halt_weights();
    while (core_->schedule.moves_weights()) wait(lock, -1, true);
  }

  /// Waits until hidden states that the layer starts from are on the device: all that are still to be read, or as many
  /// as have room, since their blocks become free once they have been read. Returns false if none is left.
  bool await_hidden(Lock& lock, int layer) {
    if (!core_->batch.restores(layer)) return false;
    const Clock::time_point asked = Clock::now();
    for (;;) {
      device_->wake();
      release_lost(layer);
      bool there = false, missing = false;
      each_restored(layer,
                    [&](const ScheduledRequest&, const BlockRun& run) { (run.awaited ? missing : there) = true; });
      const bool stuck = missing && core_->schedule.stuck();
      if (!missing || (stuck && there)) {
        stalled_ += since(asked);
        return there;
      }
      if (stuck) {
        each_restored(layer, [this](const ScheduledRequest& scheduled, const BlockRun&) {
          core_->lose(scheduled.slot, no_room);
        });
        continue;
      }
      wait(lock, layer, true);
    }
  }

  /// Waits until everything that the layer needs is on the device, or under way in an order that the device keeps, and
  /// until there are blocks for what the layer itself makes.
  void await_layer(Lock& lock, int layer) {
    release_lost(layer);
    for (const ScheduledRequest& scheduled : core_->batch.requests()) {
      if (!scheduled.uses(layer) || core_->sequence(scheduled).resident.contains(layer)) continue;
      take_missing(lock, scheduled, layer, 0, layer, [&](BlockRun& run) {
        const bool passes = scheduled.place(layer, run.first) != KvPlace::device;
        if (passes) core_->store.step(run, BlockEvent::pass);
        core_->schedule.room().reserved(layer, passes) -= run.count;
      });
      release_lost(layer);
    }
    await_arrivals(lock, layer);
    // Last, so that they take no block that the layer's K and V need.
    for (const ScheduledRequest& scheduled : core_->batch.requests())
      if (core_->sequence(scheduled).has_hidden && scheduled.uses(layer) && !core_->sequence(scheduled).lost)
        open_hidden(lock, core_->sequence(scheduled), layer);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static Seconds since(Clock::time_point when) {
    return Seconds{std::chrono::duration<double>(Clock::now() - when).count()};
  }
  /// Waits until something changes: for a layer, for room if `for_room`, or because nothing can move.
  void wait(Lock& lock, int layer, bool for_room) {
    core_->schedule.awaits(layer, for_room);
    device_->rest(lock);
    core_->schedule.awaits(-1, false);
  }

  static constexpr std::string_view no_room = "its KV finds no room on the device";

  void await_arrivals(Lock& lock, int layer) {
    if (core_->schedule.arrived(layer)) return;
    const Clock::time_point asked = Clock::now();
    while (!core_->schedule.arrived(layer)) {
      device_->wake();
      if (release_lost(layer) || core_->schedule.arrived(layer)) continue;
      if (core_->schedule.stuck()) {
        give_up(layer);
        break;
      }
      wait(lock, layer, false);
    }
    stalled_ += since(asked);
  }
  /// Takes device blocks, as soon as there are any, for a layer's blocks from `from` on that are nowhere, and calls
  /// `took(run)` for each run of them. If there will never be one the request is lost. `awaited`: the layer that waits.
  template <class Took>
  void take_missing(Lock& lock, const ScheduledRequest& scheduled, int layer, std::int64_t from, int awaited,
                    const Took& took) {
    const KvSequence& sequence = core_->sequence(scheduled);
    BlockTable& table = core_->sequence(scheduled).tables[static_cast<std::size_t>(layer)];
    for (std::int64_t block = from; block < scheduled.blocks && !sequence.lost;) {
      const BlockRun run = table[table.find(block)];
      std::int64_t end = std::min<std::int64_t>(run.end(), scheduled.blocks);
      if (!run.exists()) { // blocks on both sides of the head have different places
        if (block < scheduled.head) end = std::min(end, scheduled.head);
        std::int32_t taken = 0;
        const auto take = [&] { return (taken = core_->store.take(table, table.cut(block), end - block)) > 0; };
        if (!try_until_stuck(lock, awaited, take)) return core_->lose(scheduled.slot, no_room);
        took(table[table.find(block)]);
        end = block + taken;
      }
      block = end;
    }
  }
  /// Repeats `attempt()` until it succeeds, or can never succeed.
  template <class Attempt>
  bool try_until_stuck(Lock& lock, int layer, const Attempt& attempt) {
    if (attempt()) return true;
    const Clock::time_point asked = Clock::now();
    device_->wake(); // may already bring the block, if the link has no thread of its own
    bool done = attempt();
    while (!done && !core_->schedule.stuck()) {
      wait(lock, layer, true);
      device_->wake();
      done = attempt();
    }
    stalled_ += since(asked);
    return done;
  }

  /// Visits the layer's hidden states that are still to be read, of requests that are not lost.
  template <class Visit>
  void each_restored(int layer, const Visit& visit) {
    for (const ScheduledRequest& scheduled : core_->batch.requests()) {
      KvSequence& sequence = core_->sequence(scheduled);
      if (sequence.lost || !scheduled.restored.contains(layer)) continue;
      for (const BlockRun& run : sequence.hidden_table(layer).runs())
        if (run.restores) visit(scheduled, run);
    }
  }
  /// Takes blocks for the hidden states that the layer keeps of a sequence. If there will never be room, the layer's
  /// hidden states are given up, those of earlier tokens included.
  void open_hidden(Lock& lock, KvSequence& sequence, int layer) {
    HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
    if (hidden.wanted <= hidden.kept) return;
    BlockTable& table = sequence.hidden_table(layer);
    const std::int64_t blocks = hidden_blocks(*core_, hidden.wanted);
    table.grow(blocks);
    std::int64_t block = hidden.kept / core_->store.shape().hidden_tokens();
    for (bool opened = true; opened && block < blocks; ++block) {
      // Waits only while hidden states leave: nothing else is known to make room.
      const auto hopeless = [&] {
        return !table.one(block).exists() && (!core_->store.has_place_for_hidden() || !core_->schedule.sends_hidden());
      };
      opened = try_until_stuck(lock, layer, [&] { return core_->store.append_hidden(table, block) || hopeless(); }) &&
               table.one(block).on_device();
      if (!opened) {
        trim_hidden(*core_, sequence, layer, 0);
        break;
      }
    }
    core_->schedule.room().reserved(layer, true) -= std::exchange(hidden.reserved, 0);
  }

  [[nodiscard]] std::int64_t blocks_wanted() {
    std::int64_t stay = 0;
    pass_.assign(static_cast<std::size_t>(core_->layers), 0);
    const LayerSet all = LayerSet::all(core_->layers);
    for (const ScheduledRequest& scheduled : core_->batch.requests()) {
      const KvSequence& sequence = core_->sequence(scheduled);
      const bool appends = core_->blocks_of(scheduled.held) < scheduled.blocks;
      (appends ? all : all - sequence.resident).for_each([&](int layer) {
        BlockTable& table = core_->sequence(scheduled).tables[static_cast<std::size_t>(layer)];
        const bool away = scheduled.row->holding.away().contains(layer);
        std::int64_t pass = 0;
        if (away) table.cut(scheduled.head);
        table.each(core_->first_changing(scheduled, sequence, layer), scheduled.blocks, [&](const BlockRun& run) {
          if (run.on_device() && !run.leaves()) return;
          (away && run.first < scheduled.head ? pass : stay) += run.count;
        });
        if (scheduled.uses(layer)) pass_[static_cast<std::size_t>(layer)] += pass;
      });
      // Hidden states that a layer starts from are not counted: they have been read when the layer's own blocks are
      // taken.
      for (int layer = 0; sequence.has_hidden && layer < core_->layers; ++layer)
        pass_[static_cast<std::size_t>(layer)] += hidden_to_take(*core_, sequence, layer);
    }
    return stay + *std::max_element(pass_.begin(), pass_.end()) + core_->schedule.weights_blocks();
  }
  /// Evicts blocks that were prefetched for another iteration than this one. (All of it: one block less here is one
  /// block more for a layer.)
  void drop_prefetched() {
    core_->sequences.for_each([this](Slot, KvSequence& sequence) {
      for (std::size_t layer = 0; layer < sequence.tables.size(); ++layer) {
        for (BlockRun& run : sequence.tables[layer].runs())
          if (run.passes())
            core_->schedule.evict(core_->sequences.ref(sequence, static_cast<int>(layer), run.first), run);
      }
    });
  }

  /// Frees the memory of lost requests, and stops waiting for what they needed from `layer` on; returns whether there
  /// were any. Called between layers: no computation on the host uses their blocks.
  bool release_lost(int layer) {
    if (!core_->sequences.any_to_release()) return false;
    bool any = false;
    LayerRoom& room = core_->schedule.room();
    for (const ScheduledRequest& scheduled : core_->batch.requests()) {
      KvSequence& sequence = core_->sequence(scheduled);
      if (!sequence.lost || sequence.released) continue;
      any = true;
      for (int l = 0; l < core_->layers; ++l) {
        BlockTable& table = sequence.tables[static_cast<std::size_t>(l)];
        table.cut(scheduled.head);
        table.each(0, scheduled.blocks, [&](BlockRun& run) {
          const bool passes = scheduled.place(l, run.first) != KvPlace::device;
          const bool to_come = !run.on_device() || run.leaves();
          if (scheduled.uses(l) && l >= layer && (!run.exists() || (run.awaited && to_come)))
            room.reserved(l, passes) -= run.count;
          else if (!scheduled.uses(l) && run.exists() && !passes && to_come)
            room.reserved_idle() -= run.count;
          room.no_longer_awaited(run, l);
        });
        for (BlockRun& run : sequence.hidden_table(l).runs()) {
          if (run.awaited && (!run.on_device() || run.leaves())) room.reserved(l, true) -= run.count;
          room.no_longer_awaited(run, l);
        }
        room.reserved(l, true) -= std::exchange(sequence.hidden[static_cast<std::size_t>(l)].reserved, 0);
      }
      core_->sequences.abandon(sequence);
    }
    if (any) device_->wake();
    return any;
  }

  /// Nothing can bring what the layer still waits for: the requests whose KV is missing are lost. This does not happen
  /// while the ledger and the two memories agree.
  void give_up(int layer) {
    for (const ScheduledRequest& scheduled : core_->batch.requests()) {
      const std::span<const BlockRun> runs = core_->sequence(scheduled).tables[static_cast<std::size_t>(layer)].runs();
      if (std::any_of(runs.begin(), runs.end(), [](const BlockRun& run) { return run.awaited; }))
        core_->lose(scheduled.slot, no_room);
    }
    if (!core_->weights.ready(layer))
      for (const ScheduledRequest& scheduled : core_->batch.requests())
        core_->lose(scheduled.slot, core_->schedule.weights_failed()
                                        ? "a transfer of its model's weights failed twice"
                                        : "its model's weights find no room on the device");
    release_lost(layer);
  }

  MachineCore* core_;
  Device* device_;
  Seconds stalled_{0};
  std::vector<std::int64_t> pass_; ///< by layer: blocks that are on the device only while it computes
};

} // namespace sluice
