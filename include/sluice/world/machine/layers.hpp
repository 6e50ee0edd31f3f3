// SPDX-License-Identifier: Apache-2.0
// LinkWaits, open_layer, LayerRows, close_layer: a layer of an iteration. The computing thread waits for its blocks,
// opens those that it writes, gives the addresses of all to the model's runner, and closes them behind the launch.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/decoder/decoder.hpp"
#include "sluice/model/decoder/model_runner.hpp"
#include "sluice/world/machine/block.hpp"
#include "sluice/world/machine/block_steps.hpp"
#include "sluice/world/machine/device.hpp"
#include "sluice/world/machine/hidden_states.hpp"
#include "sluice/world/machine/machine_core.hpp"
#include "sluice/world/machine/prefetched_kv.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// open_on_host: a layer of a request whose new token the host attends, over KV in its own memory (NEO).

/// Opens the host block that the layer appends to, and checks that only the host has all others. No copy moves any of
/// them while the layer computes.
inline void open_on_host(MachineCore& core, const ScheduledRequest& scheduled, int layer) {
  BlockTable& table = core.sequence(scheduled).tables[static_cast<std::size_t>(layer)];
  const std::int64_t block = scheduled.held / core.block_tokens, tokens = scheduled.held % core.block_tokens + 1;
  [[maybe_unused]] const bool opened = core.store.append_on_host(table, block, tokens);
  [[maybe_unused]] const std::span<const BlockRun> runs = table.runs();
  SLUICE_ASSERT(opened && std::all_of(runs.begin(), runs.end(), [](const BlockRun& run) { return run.on_host(); }),
                "the host attends blocks that only it has");
  if (tokens == core.block_tokens) table.join(); // `reconcile` does not look at a parked layer
}

/// An iteration's waits, how long they took, and what happens to requests whose wait would never end. Callers hold the
/// schedule's mutex. Of the device it needs two calls: `wake()`, since the link may have something to move, and
/// `rest(lock)`, since only the link can make progress.
template <class Device>
class LinkWaits {
 public:
  using Lock = std::unique_lock<std::mutex>;

  LinkWaits(MachineCore& core, Device& device) : core_(&core), device_(&device), prefetched_(core) {}

  void begin() { stalled_ = Seconds{0}; }
  /// Since the iteration began.
  [[nodiscard]] Seconds stalled() const { return stalled_; }

  /// Finds device blocks for new KV that stays. Prefetched blocks may have to go for it.
  void make_room(Lock& lock) {
    prefetched_.make_way();
    for (const ScheduledRequest& scheduled : core_->batch.requests()) {
      // Rebuilt KV takes its block together with its layer.
      const std::int64_t held = core_->blocks_of(scheduled.held);
      // A layer that gives blocks back takes the new ones when it computes: the old ones leave then.
      for (int layer = 0; layer < core_->layers && held < scheduled.blocks; ++layer)
        if (!core_->reach.bounded.contains(layer))
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
  /// Waits until all KV of a request that computes nothing in this iteration is on the device. If nothing can move any
  /// more, those that wait are lost.
  void await_loaded(Lock& lock) {
    const Clock::time_point asked = Clock::now();
    const auto any_has = [this] {
      const auto requests = core_->batch.requests();
      return std::any_of(requests.begin(), requests.end(), [this](const ScheduledRequest& scheduled) {
        return core_->sequence(scheduled).lost || has_loaded(*core_, core_->sequence(scheduled));
      });
    };
    wait_until(lock, any_has);
    if (!any_has())
      for (const ScheduledRequest& scheduled : core_->batch.requests())
        core_->sequences.lose(scheduled.slot, no_room, true);
    stalled_ += since(asked);
  }
  /// Waits until copies for the host tier have crossed.
  void await_written(Lock& lock) {
    const Clock::time_point asked = Clock::now();
    wait_until(lock, [this] { return !core_->schedule.sends_ahead(); });
    stalled_ += since(asked);
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
          core_->sequences.lose(scheduled.slot, no_room, true);
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
      if (scheduled.hosted) await_on_host(lock, scheduled, layer);
      if (!scheduled.uses(layer) || core_->sequence(scheduled).resident.contains(layer)) continue;
      take_missing(lock, scheduled, layer, scheduled.first_block(layer), layer, [&](BlockRun& run) {
        const bool passes = scheduled.place(layer, run.first) != KvPlace::device;
        if (passes) core_->store.step(run, BlockEvent::pass);
        const bool counts = counts_as_passing(scheduled, core_->sequence(scheduled), layer, run.first, true);
        core_->schedule.room().reserved(layer, counts) -= run.count;
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
        for (const std::int64_t other :
             {scheduled.first_kept(layer), std::int64_t{sequence.stays_from[static_cast<std::size_t>(layer)]}})
          if (block < other) end = std::min(end, other);
        std::int32_t taken = 0;
        const auto take = [&] { return (taken = core_->store.take(table, table.cut(block), end - block)) > 0; };
        if (!try_until_stuck(lock, awaited, take)) return core_->sequences.lose(scheduled.slot, no_room, true);
        took(table[table.find(block)]);
        end = block + taken;
      }
      block = end;
    }
  }
  /// Waits until all of a request's KV of the layer is on the host, and takes a block there for a new one.
  void await_on_host(Lock& lock, const ScheduledRequest& scheduled, int layer) {
    KvSequence& sequence = core_->sequence(scheduled);
    if (sequence.lost) return;
    BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
    const auto left = [&] {
      const std::span<const BlockRun> runs = table.runs();
      return sequence.lost ||
             std::none_of(runs.begin(), runs.end(), [](const BlockRun& run) { return run.on_device(); });
    };
    if (!sequence.parked.contains(layer) && !try_until_stuck(lock, layer, left))
      return core_->sequences.lose(scheduled.slot, "its KV does not leave the device", true);
    const std::int64_t block = scheduled.held / core_->block_tokens;
    if (!sequence.lost && !table[table.find(block)].exists() && !core_->store.take_on_host(table, block))
      core_->sequences.lose(scheduled.slot, "its KV finds no room on the host", true);
  }
  /// Repeats `attempt()` until it succeeds, or can never succeed.
  template <class Attempt>
  bool try_until_stuck(Lock& lock, int layer, const Attempt& attempt) {
    if (attempt()) return true;
    const Clock::time_point asked = Clock::now();
    bool done = false; // waking may already bring the block, if the link has no thread of its own
    for (device_->wake(); !(done = attempt()) && !core_->schedule.stuck(); device_->wake()) wait(lock, layer, true);
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
      // The plan has room for states that stay. Others wait only while hidden states leave: nothing else is known to
      // make room.
      const auto hopeless = [&] {
        return !hidden.stays && !table.one(block).exists() &&
               (!core_->store.has_place_for_hidden() || !core_->schedule.sends_hidden());
      };
      opened = try_until_stuck(lock, layer,
                               [&] { return core_->store.append_hidden(table, block, hidden.stays) || hopeless(); }) &&
               table.one(block).on_device();
      if (!opened) {
        trim_hidden(*core_, sequence, layer, 0);
        break;
      }
    }
    core_->schedule.room().reserved(layer, !hidden.stays) -= std::exchange(hidden.reserved, 0);
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
        table.cut(scheduled.first_kept(l));
        table.each(scheduled.first_block(l), scheduled.blocks, [&](BlockRun& run) {
          const bool passes = scheduled.place(l, run.first) != KvPlace::device;
          const bool to_come = !run.keeps_device();
          if (scheduled.uses(l) && l >= layer && (!run.exists() || (run.awaited && to_come)))
            room.reserved(l, counts_as_passing(scheduled, sequence, l, run.first, !run.exists())) -= run.count;
          else if (!scheduled.uses(l) && run.exists() && !passes && to_come)
            room.reserved_idle() -= run.count;
          room.no_longer_awaited(run, l);
        });
        for (BlockRun& run : sequence.hidden_table(l).runs()) {
          if (run.awaited && !run.keeps_device()) room.reserved(l, true) -= run.count;
          room.no_longer_awaited(run, l);
        }
        HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(l)];
        room.reserved(l, !hidden.stays) -= std::exchange(hidden.reserved, 0);
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
        core_->sequences.lose(scheduled.slot, no_room, true);
    }
    if (!core_->weights.ready(layer))
      for (const ScheduledRequest& scheduled : core_->batch.requests())
        core_->sequences.lose(scheduled.slot, core_->schedule.weights_failed()
                                                  ? "a transfer of its model's weights failed twice"
                                                  : "its model's weights find no room on the device");
    release_lost(layer);
  }

  MachineCore* core_;
  Device* device_;
  Seconds stalled_{0};
  PrefetchedKv prefetched_;
};

/// Opens the blocks that this layer appends to, and checks that all others are readable. (In a layer that is resident
/// nothing else can be.)
inline void open_layer(MachineCore& core, int layer) {
  for (const ScheduledRequest& scheduled : core.batch.requests()) {
    KvSequence& sequence = core.sequence(scheduled);
    if (scheduled.hosted && !sequence.lost) open_on_host(core, scheduled, layer);
    if (sequence.lost || sequence.resident.contains(layer) || !scheduled.uses(layer)) continue;
    BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
    const std::int64_t appended = scheduled.fresh > 0 ? scheduled.held / core.block_tokens : scheduled.blocks;
    [[maybe_unused]] bool all = true;
    table.each(scheduled.first_block(layer), appended, [&](const BlockRun& run) { all = all && run.state.readable(); });
    table.each(appended, scheduled.blocks, [&](BlockRun& run) {
      if (core.states.contains(layer)) core.store.step(run, BlockEvent::give_up_copy); // the state is another one
      core.store.step(run, BlockEvent::append);
      all = all && run.state.writable();
    });
    SLUICE_ASSERT(all, "a layer computes on blocks that no other work writes");
  }
}

/// Closes a layer after its launch: gives back blocks that were on the device for this layer only, and sends what
/// leaves, hidden states included.
inline void close_layer(MachineCore& core, int layer) {
  for (const ScheduledRequest& scheduled : core.batch.requests()) {
    KvSequence& sequence = core.sequence(scheduled);
    if (sequence.lost || !scheduled.uses(layer)) continue;
    if (sequence.has_hidden) close_hidden(core, sequence, layer);
    if (sequence.resident.contains(layer)) continue;
    BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
    const std::int64_t full = scheduled.total() / core.block_tokens;
    table.cut(scheduled.head);
    table.cut(full);
    table.cut(scheduled.first_kept(layer));
    table.each(scheduled.first_block(layer), scheduled.blocks, [&](BlockRun& run) {
      run.tokens = static_cast<std::uint16_t>(run.first < full ? core.block_tokens
                                                               : scheduled.total() - full * core.block_tokens);
      switch (scheduled.place(layer, run.first)) {
      case KvPlace::device:
        break;
      case KvPlace::nowhere:
        core.store.step(run, BlockEvent::release);
        break;
      case KvPlace::host:
        if (scheduled.row->holding.written_back && run.clean()) // all of it is sent again (Pie)
          core.store.step(run, BlockEvent::give_up_copy);
        core.evict(sequence, layer, run);
        break;
      }
    });
  }
}

/// Collects, layer by layer, the rows of a batch and the addresses of their K and V. It asks the compute lane for each
/// address, for reading or for writing, so that the lane waits for what the block's content needs. A sequence keeps a
/// table of addresses per layer; while the layer is resident only new blocks are added to it, and the runner gets
/// only these.
class LayerRows {
 public:
  /// Gives the runner, before the first layer, the blocks that resident layers have got since their last launch, so
  /// that it can upload all of them at once. The blocks' uses still begin with their layers, which ask the lane for
  /// them again. The caller holds the schedule's mutex.
  template <class Lane>
  void announce(MachineCore& core, Lane& lane, ModelRunner& runner) {
    find_tables(core);
    grown_.clear();
    const std::int64_t block_bytes = core.store.shape().bytes().count();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (sequence.lost || scheduled.fresh == 0 || core.blocks_of(scheduled.held) >= scheduled.blocks) continue;
      sequence.resident.for_each([&](int layer) {
        const std::int32_t known = sequence.known[static_cast<std::size_t>(layer)];
        if (known == 0) return; // the whole table is new, and goes with its layer
        Addresses& kept = addresses_[static_cast<std::size_t>(number(core, scheduled, layer))];
        const BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
        kept.make_room(table.size());
        for (std::size_t at = table.find(known); at < table.runs().size(); ++at) {
          BlockRun run = table.runs()[at];
          if (!run.on_device()) return; // the layer makes room for it
          if (run.first < known) run = run.split(known);
          kept.write(run, lane.address({DevicePlace::Kind::kv_block, run.device, run.count}), block_bytes);
        }
        kept.announced = static_cast<std::int32_t>(scheduled.blocks);
        grown_.push_back(
            {layer, static_cast<std::int32_t>(index(scheduled.slot)), known, kept.announced, kept.blocks.data()});
      });
    }
    if (!grown_.empty()) runner.announce(grown_);
  }

  /// The caller holds the schedule's mutex: entries of other layers change meanwhile, in the same vectors.
  template <ComputeLane Lane>
  void collect(MachineCore& core, int layer, Lane& lane) {
    find_tables(core);
    rows_.clear();
    const std::int64_t block_bytes = core.store.shape().bytes().count();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (scheduled.hosted && !sequence.lost) collect_hosted(core, scheduled, layer, lane);
      if (sequence.lost || !scheduled.uses(layer)) continue;
      BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
      const std::int32_t number_of_table = number(core, scheduled, layer);
      std::int32_t& known = sequence.known[static_cast<std::size_t>(layer)];
      const bool resident = sequence.resident.contains(layer);
      Addresses& addresses =
          resident ? addresses_[static_cast<std::size_t>(number_of_table)] : passing_[index(scheduled.slot)];
      const std::int64_t appended = scheduled.fresh > 0 ? scheduled.held / core.block_tokens : scheduled.blocks;
      const std::int64_t block = resident ? known : scheduled.first_block(layer);
      const bool goes_on = resident && known > 0;
      const std::int32_t announced = goes_on ? addresses.announced : 0;
      if (goes_on) lane.again(number_of_table); // nobody else has written these blocks since
      if (block < scheduled.blocks) {
        addresses.make_room(table.size());
        table.cut(appended);
        table.cut(core.blocks_of(scheduled.rebuilt));
      }
      std::int64_t made = 0; // rebuilt blocks: the oldest
      table.each(block, scheduled.blocks, [&](const BlockRun& run) {
        const bool is_made = run.tokens == 0 && run.first * core.block_tokens < scheduled.rebuilt;
        if (is_made) made = run.end();
        const DevicePlace place{DevicePlace::Kind::kv_block, run.device, run.count};
        // A runner takes one table of blocks, and writes to none that it only reads.
        addresses.write(run,
                        is_made || run.first >= appended ? lane.writes(place, number_of_table)
                                                         : const_cast<std::byte*>(lane.reads(place, number_of_table)),
                        block_bytes);
      });
      known = addresses.announced = resident ? static_cast<std::int32_t>(scheduled.blocks) : 0;
      const auto add = [&](int first_row, int rows, int position, int stored_from) {
        rows_.push_back({first_row, rows, position, addresses.blocks.data(), stored_from,
                         resident ? static_cast<std::int32_t>(index(scheduled.slot)) : -1, announced});
      };
      if (scheduled.fresh > 0)
        add(scheduled.first_row, static_cast<int>(scheduled.fresh), static_cast<int>(scheduled.held),
            static_cast<int>(scheduled.held));
      if (!scheduled.rebuilds(layer)) continue;
      // The decoder stores what is missing; the other rows only pass, for the sake of later layers.
      const int stored = static_cast<int>(std::min(scheduled.rebuilt, made * core.block_tokens));
      const int all = static_cast<int>(scheduled.rebuilt);
      if (stored > 0) add(scheduled.rebuilt_row, stored, 0, 0);
      if (stored < all) add(scheduled.rebuilt_row + stored, all - stored, stored, all);
    }
  }
  [[nodiscard]] std::span<const SequenceRows> rows() const { return rows_; }

  /// Collects the rows that start the layer from hidden states, if these are on the device. The caller holds the
  /// schedule's mutex.
  template <ComputeLane Lane>
  void collect_restored(MachineCore& core, int layer, Lane& lane) {
    hidden_.clear();
    read_.clear();
    const std::int64_t each = core.store.shape().hidden_tokens();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (sequence.lost || !scheduled.restored.contains(layer)) continue;
      sequence.hidden_table(layer).each(0, hidden_blocks(core, scheduled.rebuilt), [&](BlockRun& run) {
        if (!run.restores || run.awaited) return;
        run.restores = false;
        read_.push_back(core.sequences.ref(sequence, core.layers + layer, run.first));
        const std::int64_t first = run.first * each;
        const DevicePlace place{DevicePlace::Kind::kv_block, run.device};
        // A runner takes one kind of rows, and writes to none that it starts from.
        hidden_.push_back({scheduled.rebuilt_row + static_cast<int>(first),
                           static_cast<int>(std::min(each, scheduled.rebuilt - first)),
                           const_cast<std::byte*>(lane.reads(place))});
      });
    }
  }
  /// The runner has read them: frees their blocks, unless these stay.
  void leave_restored(MachineCore& core) {
    for (const BlockRef& ref : read_)
      if (BlockTable* const table = core.sequences.table(ref)) leave_hidden(core, ref, table->one(ref.block));
    core.schedule.freed();
  }
  /// Collects the rows whose hidden states the layer keeps: of a prefix that passes again, and of new tokens. The
  /// caller holds the schedule's mutex.
  template <ComputeLane Lane>
  void collect_kept(MachineCore& core, int layer, Lane& lane) {
    hidden_.clear();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      KvSequence& sequence = core.sequence(scheduled);
      if (!sequence.has_hidden || sequence.lost || !scheduled.uses(layer)) continue;
      const HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
      keep(core, sequence, layer, hidden.kept, std::min(hidden.wanted, scheduled.rebuilt), scheduled.rebuilt_row, lane);
      keep(core, sequence, layer, std::max(hidden.kept, scheduled.held), hidden.wanted,
           scheduled.first_row - static_cast<int>(scheduled.held), lane);
    }
  }
  /// The result of the last collect_restored or collect_kept.
  [[nodiscard]] std::span<const HiddenRows> hidden() const { return hidden_; }

 private:
  /// A table's addresses, and how many of them the runner has.
  struct Addresses {
    std::vector<std::byte*> blocks;
    std::int32_t announced = 0; ///< valid while the sequence's `known` blocks are those of the last launch

    void make_room(std::int64_t size) {
      if (static_cast<std::int64_t>(blocks.size()) < size) blocks.resize(std::bit_ceil(static_cast<std::size_t>(size)));
    }
    void write(const BlockRun& run, std::byte* first, std::int64_t block_bytes) {
      for (std::int32_t i = run.first; i < run.end(); ++i, first += block_bytes)
        blocks[static_cast<std::size_t>(i)] = first;
    }
  };

  void find_tables(const MachineCore& core) {
    const std::size_t slots = std::max(passing_.size(), core.sequences.slots());
    passing_.resize(slots);
    addresses_.resize(slots * static_cast<std::size_t>(core.layers));
  }
  [[nodiscard]] static std::int32_t number(const MachineCore& core, const ScheduledRequest& scheduled, int layer) {
    return static_cast<std::int32_t>(index(scheduled.slot)) * core.layers + layer;
  }
  /// Adds a request's new token, which the host attends, with the addresses of its blocks there.
  template <ComputeLane Lane>
  void collect_hosted(MachineCore& core, const ScheduledRequest& scheduled, int layer, Lane& lane) {
    SLUICE_ASSERT(HostAddresses<Lane>, "the engine has the host attend only on a device whose lane can");
    if constexpr (HostAddresses<Lane>) {
      BlockTable& table = core.sequence(scheduled).tables[static_cast<std::size_t>(layer)];
      Addresses& addresses = passing_[index(scheduled.slot)];
      addresses.make_room(table.size());
      for (const BlockRun& run : table.runs())
        addresses.write(run, lane.host_block(run.host), core.store.shape().bytes().count());
      SequenceRows row{scheduled.first_row, 1, static_cast<int>(scheduled.held), addresses.blocks.data(),
                       static_cast<int>(scheduled.held)};
      row.on_host = true;
      rows_.push_back(row);
    }
  }
  /// Adds the hidden states of tokens `from` .. `to` - 1; token 0 would have row `row`.
  template <ComputeLane Lane>
  void keep(const MachineCore& core, KvSequence& sequence, int layer, std::int64_t from, std::int64_t to, int row,
            Lane& lane) {
    const KvBlockShape& shape = core.store.shape();
    while (from < to) {
      const std::int64_t block = from / shape.hidden_tokens(), first = block * shape.hidden_tokens();
      const std::int64_t end = std::min(to, first + shape.hidden_tokens());
      const BlockRun& run = sequence.hidden_table(layer).one(block);
      std::byte* const at = lane.writes(DevicePlace{DevicePlace::Kind::kv_block, run.device});
      hidden_.push_back(
          {row + static_cast<int>(from), static_cast<int>(end - from), at + (from - first) * shape.hidden_bytes});
      from = end;
    }
  }

  std::vector<Addresses> addresses_; ///< of resident layers, by slot and layer
  std::vector<Addresses> passing_;   ///< of the other sequences of the layer being launched, by slot
  std::vector<GrownTable> grown_;
  std::vector<SequenceRows> rows_;
  std::vector<HiddenRows> hidden_;
  std::vector<BlockRef> read_; ///< blocks of hidden states that the runner is reading
};

} // namespace sluice
