// SPDX-License-Identifier: Apache-2.0
// reconcile, gather, BlockNeeds: what happens to block tables before an iteration. Each block's place is compared with
// the place that the engine's rows demand, and the blocks that the link must bring are requested. Each step visits runs
// of blocks, not blocks.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/world/backend.hpp"
#include "sluice/world/host_tier/host_tier_steps.hpp"
#include "sluice/world/machine/hidden_states.hpp"
#include "sluice/world/machine/kv_needs.hpp"
#include "sluice/world/machine/link_schedule.hpp"
#include "sluice/world/machine/machine_core.hpp"
#include "sluice/world/machine/token_requests.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

namespace detail {

/// Keeps blocks on the device: cancels an earlier move of them, and makes or drops the host's copies as the plan
/// demands. Returns whether nothing is left to do. (A block that is being sent away is fetched when the host has it.)
inline bool keep_on_device(MachineCore& core, KvSequence& sequence, int layer, BlockRun& run, bool copied) {
  KvStore& store = core.store;
  if (!store.step(run, BlockEvent::keep)) return false;
  if (run.clean() && (!copied || run.tokens < core.block_tokens)) store.step(run, BlockEvent::give_up_copy);
  if (copied && run.state == BlockState{BlockPlace::device} && run.tokens == core.block_tokens)
    core.schedule.copy_ahead(core.sequences.ref(sequence, layer, run.first), run);
  return run.state == BlockState{copied ? BlockPlace::both : BlockPlace::device};
}

/// What a request computes in an iteration: nothing, with its KV on the device, or a token that the host attends.
enum class ComputesBy : std::uint8_t { none, device, host };

/// One layer of one sequence. Afterwards it is `resident` or `parked` if every block is where the plan wants it.
inline void reconcile_layer(MachineCore& core, const RequestRow& row, KvSequence& sequence, int layer,
                            ComputesBy computes) {
  BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
  const std::int64_t held = std::min(core.blocks_of(sequence.computed), table.size());
  const std::int64_t head = std::min(core.head_of(row), held);
  const std::int64_t away = row.holding.away().contains(layer) ? head : 0; // blocks that are not to stay
  const std::int64_t first = core.reach.first(layer, sequence.computed);   // blocks before it are read no more
  const bool grows = !core.reach.bounded.contains(layer); // others have few blocks, and look at them in each step
  bool resident = grows && !row.holding.away().contains(layer), parked = grows && away == held && held > 0;
  table.join();
  // Layers that are resident do not count their blocks' tokens.
  const std::int64_t full = sequence.computed / core.block_tokens;
  table.cut(full);
  const auto count_tokens = [&](BlockRun& run) {
    if (run.state.writable())
      run.tokens = static_cast<std::uint16_t>(run.first < full ? core.block_tokens
                                                               : sequence.computed - full * core.block_tokens);
  };
  table.each(0, first, [&](BlockRun& run) { core.store.step(run, BlockEvent::release); });
  table.each(first, away, [&](BlockRun& run) {
    run.awaited = run.sooner = false;
    if (row.holding.nowhere.contains(layer)) {
      if (run.exists()) core.store.step(run, BlockEvent::release);
      parked = false;
    } else if (run.on_device()) {
      count_tokens(run);
      // KV that the host attends in this iteration leaves now, before other evictions, since its layer waits for it. A
      // block that is queued already keeps its place.
      if (computes == ComputesBy::host) core.store.step(run, BlockEvent::pass);
      // KV that a layer of this iteration still reads on the device leaves after that layer; prefetched KV is used.
      if (computes != ComputesBy::device)
        core.evict(sequence, layer, run);
      else if (run.leaves())
        core.store.step(run, BlockEvent::use);
    }
    parked = parked && run.on_host();
  });
  table.cut(std::min(sequence.planned_copies, held));
  table.cut(std::min(sequence.settled_copies, held));
  table.cut(std::min(sequence.in_tier, held));
  // What the host tier had when the request joined does not cross again. If the tier evicts it meanwhile, it crosses
  // when the request departs.
  const auto copied = [&sequence](const BlockRun& run) {
    return run.first < sequence.planned_copies ||
           (run.first >= sequence.in_tier && run.first < sequence.settled_copies);
  };
  table.each(std::max(first, away), held, [&](BlockRun& run) {
    run.awaited = run.sooner = false;
    count_tokens(run);
    if (!run.on_device() || !keep_on_device(core, sequence, layer, run, copied(run))) resident = false;
  });
  if (resident)
    sequence.resident.insert(layer);
  else
    sequence.known[static_cast<std::size_t>(layer)] = 0;
  if (parked) sequence.parked.insert(layer);
}

/// Finds what the plan in force wants of a sequence. Layers that are where another plan wanted them need a look again.
inline void adopt_plan(const MachineCore& core, const RequestRow& row, KvSequence& sequence, ComputesBy computes) {
  sequence.leaves_host = sequence.settled_for.attended_on_host && !row.holding.attended_on_host;
  sequence.planned_copies = row.holding.copied_blocks(row.blocks, core.setup.limits.block_tokens).count();
  std::int64_t copies = sequence.planned_copies;
  if (sequence.kept.behind && !sequence.has_hidden) // hidden states need the places on the host
    copies = std::max(copies, std::min(sequence.kept.tokens.count(), sequence.computed) / core.block_tokens);
  if (sequence.settled_for != row.holding || sequence.settled_copies != copies ||
      sequence.settled_computing != (computes == ComputesBy::device)) {
    sequence.look_again();
    sequence.settled_for = row.holding;
    sequence.settled_copies = copies;
    sequence.settled_computing = computes == ComputesBy::device;
  }
}

inline void reconcile_blocks(MachineCore& core, const RequestRow& row, KvSequence& sequence, ComputesBy computes) {
  (LayerSet::all(core.layers) - sequence.resident - sequence.parked).for_each([&](int layer) {
    reconcile_layer(core, row, sequence, layer, computes);
  });
}

/// Sequences that the host attends in the iteration. Their blocks leave the device in the order of the layers, of which
/// each waits only for its own.
inline void reconcile_hosted(MachineCore& core, const Iteration& iteration) {
  for (int layer = 0; layer < core.layers; ++layer)
    for (const Claim& claim : iteration.batch) {
      const RequestRow& row = iteration.view.row(claim.slot);
      if (!is_hosted(row, claim.tokens)) continue;
      KvSequence& sequence = core.sequences.of(claim.slot, row.id);
      if (!sequence.resident.contains(layer) && !sequence.parked.contains(layer))
        reconcile_layer(core, row, sequence, layer, ComputesBy::host);
    }
}

/// Finds KV that is in neither memory and must be rebuilt: the oldest tokens pass the layers again, up to the last
/// layer that misses their KV (or start from their hidden states: plan_hidden). A request that sits the iteration out
/// rebuilds only what it will keep.
inline void find_rebuilt(const MachineCore& core, ScheduledRequest& scheduled, const KvSequence& sequence) {
  const std::int64_t held = core.blocks_of(scheduled.held);
  (LayerSet::all(core.layers) - sequence.resident - sequence.parked).for_each([&](int layer) {
    const std::span<const BlockRun> runs = sequence.tables[static_cast<std::size_t>(layer)].runs();
    for (std::size_t run = runs.size(); run-- > 0;) {
      if (runs[run].exists() || runs[run].first >= held) continue;
      if (runs[run].end() <= scheduled.first_block(layer)) break;
      const std::int64_t last = std::min<std::int64_t>(runs[run].end(), held) - 1;
      // The sets of the holding describe the oldest blocks, so the run's last block is the one that would be kept.
      if (scheduled.fresh == 0 && scheduled.place(layer, last) == KvPlace::nowhere) continue;
      scheduled.rebuilt = std::max(scheduled.rebuilt, std::min(scheduled.held, (last + 1) * core.block_tokens));
      scheduled.made.insert(layer);
      break;
    }
  });
}

} // namespace detail

/// Whether all of a sequence's KV is on the device. What a failed copy has brought is none.
[[nodiscard]] inline bool has_loaded(const MachineCore& core, const KvSequence& sequence) {
  if (sequence.lost) return false;
  const std::int64_t held = core.blocks_of(sequence.computed);
  return std::all_of(sequence.tables.begin(), sequence.tables.begin() + core.layers, [&](const BlockTable& table) {
    return std::all_of(table.runs().begin(), table.runs().end(),
                       [&](const BlockRun& run) { return run.first >= held || run.state.readable(); });
  });
}

/// What a sequence has computed others can find by its blocks' numbers from now on, whether it stays or not.
inline void publish(MachineCore& core, KvSequence& sequence, TokenRequests& requests) {
  const auto full = static_cast<std::size_t>(sequence.computed / core.block_tokens);
  const std::size_t end = std::min(full, sequence.numbers.size());
  if (sequence.lost || sequence.published >= end) return;
  const std::span<const RecordKey> keys = requests.keys(sequence.id, end, core.block_tokens);
  for (; sequence.published < keys.size(); ++sequence.published) {
    ReleasedBlocks::Entry entry{keys[sequence.published], {}, {}};
    const auto block = static_cast<std::int64_t>(sequence.published);
    for (int layer = 0; layer < core.layers; ++layer) {
      const BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
      const BlockRun& run = table.runs()[table.find(block)];
      if (!run.state.readable()) return;
      entry.device.push_back(run.device + static_cast<std::int32_t>(block) - run.first);
    }
    const auto own =
        requests.tokens(sequence.id)
            .subspan(static_cast<std::size_t>(block * core.block_tokens), static_cast<std::size_t>(core.block_tokens));
    entry.tokens.assign(own.begin(), own.end());
    core.released.put(sequence.numbers[sequence.published], std::move(entry));
  }
}

namespace detail {

/// A new sequence starts with the KV of its first `found` blocks, which are on the device. False: some are not, or have
/// other tokens; then it is lost, and the engine computes it again.
inline bool adopt_released(MachineCore& core, KvSequence& sequence, Slot slot, std::size_t found,
                           std::span<const RecordKey> keys) {
  std::vector<const ReleasedBlocks::Entry*> entries;
  for (std::size_t block = 0; block < std::min(found, keys.size()); ++block)
    if (const auto* entry = core.released.find(sequence.numbers[block], keys[block])) entries.push_back(entry);
  for (int layer = 0; layer < core.layers; ++layer) {
    BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
    table.grow(static_cast<std::int64_t>(found));
    if (entries.size() < found) continue;
    const auto device_of = [&](std::size_t block) { return entries[block]->device[static_cast<std::size_t>(layer)]; };
    for (std::size_t block = 0, end = 0; block < found; block = end) { // neighbours are one run
      const std::int32_t device = device_of(block);
      for (end = block + 1; end < found && device_of(end) == device + static_cast<std::int32_t>(end - block);) ++end;
      table.cut(static_cast<std::int64_t>(end));
      core.store.share_on_device(table[table.cut(static_cast<std::int64_t>(block))], device);
    }
  }
  sequence.published = found;
  if (entries.size() == found) return true;
  core.sequences.lose(slot, "the device does not have the prefix that it found", true);
  return false;
}

/// A sequence joins, or grows: it takes note of its blocks' numbers, and starts with what it has found on the device
/// and what the host tier keeps for it.
inline void start_with_found(MachineCore& core, const SharedBlocks& shared, const RequestRow& row, Slot slot,
                             KvSequence& sequence, TokenRequests& requests) {
  std::int64_t found = 0;
  if (shared.exist()) {
    const SharedBlocks::Table table = shared.held(slot);
    sequence.numbers.assign(table.numbers.begin(), table.numbers.end());
    if (sequence.computed == 0 && row.computed.count() > 0 && table.sealed > 0) {
      found = static_cast<std::int64_t>(table.sealed);
      (void)adopt_released(core, sequence, slot, table.sealed, requests.keys(row.id, table.sealed, core.block_tokens));
      sequence.computed = found * core.block_tokens;
    }
  }
  if (!core.tier.keeps_for(row.id)) return;
  sequence.comes_whole = row.load_mode == LoadMode::whole;
  adopt(core, sequence, row.computed.count(), KeptKv{.id = row.id, .session = row.spec.session}.user(), found);
}

} // namespace detail

/// Calls `leave(sequence)` for requests that are gone, restarts dropped ones, lets new ones start with what the device
/// and the host tier have for them, and evicts blocks of requests that do not compute.
template <class Leave>
void reconcile(MachineCore& core, const Iteration& iteration, TokenRequests& requests, const Leave& leave) {
  const SharedBlocks& shared = iteration.shared;
  if (shared.exist()) { // before a number is taken whose request has computed it in the last iteration
    core.released.use();
    core.sequences.for_each([&](Slot, KvSequence& sequence) { publish(core, sequence, requests); });
    for (const std::uint32_t number : shared.taken)
      shared.taken_go_to_host ? depart_taken(core, number) : core.released.forget(number);
  }
  const View& view = iteration.view;
  constexpr std::uint8_t alive = 1, computing = 2, hosted = 4;
  core.marks.assign(core.sequences.slots(), 0); // by slot: a search per request would cost their square
  const auto mark = [&core](Slot slot, std::uint8_t what) {
    if (index(slot) >= core.marks.size()) core.marks.resize(index(slot) + 1);
    core.marks[index(slot)] |= what;
  };
  for (const std::span<const Slot> list : {view.running, view.preempted})
    for (const Slot slot : list) mark(slot, alive);
  bool hosts = false;
  for (const Claim& claim : iteration.batch) {
    if (claim.tokens.count() == 0) continue;
    const bool on_host = is_hosted(view.row(claim.slot), claim.tokens);
    mark(claim.slot, on_host ? hosted : computing);
    hosts = hosts || on_host;
  }
  core.sequences.for_each([&](Slot slot, KvSequence& sequence) {
    if ((core.marks[index(slot)] & alive) == 0 || view.row(slot).id != sequence.id) leave(sequence);
  });
  for (const std::span<const Slot> list : {view.running, view.preempted})
    for (const Slot slot : list) {
      const RequestRow& row = view.row(slot);
      KvSequence& sequence = core.sequences.of(slot, row.id);
      const std::uint8_t marks = core.marks[index(slot)];
      const detail::ComputesBy computes = (marks & computing) != 0 ? detail::ComputesBy::device
                                          : (marks & hosted) != 0  ? detail::ComputesBy::host
                                                                   : detail::ComputesBy::none;
      if (sequence.computed == 0 && row.spec.session != 0) unpin_session(core, row.spec.session); // it joins
      if (row.computed.count() < sequence.computed) core.sequences.drop(sequence);
      detail::start_with_found(core, shared, row, slot, sequence, requests);
      detail::adopt_plan(core, row, sequence, computes);
      if (computes != detail::ComputesBy::host) detail::reconcile_blocks(core, row, sequence, computes);
      reconcile_hidden(core, row, sequence, computes == detail::ComputesBy::device);
    }
  if (hosts) detail::reconcile_hosted(core, iteration); // it asks every request in every layer
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
    scheduled.reach = &core.reach;
    SLUICE_ASSERT(row.computed.count() == sequence.computed, "the engine and the machine know of the same KV");
    scheduled.held = sequence.computed;
    scheduled.fresh = claim.tokens.count();
    // What others hold, too, the row does not count.
    scheduled.blocks = std::max(row.blocks.count(), static_cast<std::int64_t>(sequence.numbers.size()));
    scheduled.head = core.head_of(row);
    scheduled.samples = scheduled.fresh > 0 && claim.tokens == row.pending();
    scheduled.whole =
        (sequence.preempted || sequence.leaves_host || sequence.comes_whole) && iteration.first_blocks > 0;
    if (sequence.tables[0].size() < scheduled.blocks)
      for (int layer = 0; layer < core.layers; ++layer)
        sequence.tables[static_cast<std::size_t>(layer)].grow(scheduled.blocks);
    detail::find_rebuilt(core, scheduled, sequence);
    plan_hidden(core, scheduled, sequence);
    scheduled.hosted = scheduled.rebuilt == 0 && is_hosted(row, claim.tokens);
    core.batch.add(scheduled);
  }
  core.sequences.for_each([](Slot, KvSequence& sequence) { sequence.preempted = sequence.comes_whole = false; });
  for (const Slot slot : iteration.view.preempted)
    if (KvSequence* sequence = core.sequences.find(slot)) sequence->preempted = true;
  core.batch.lay_out_rows(core.setup.rebuilt.count(), tokens_of, [&core](const ScheduledRequest& scheduled) {
    core.sequences.lose(scheduled.slot, "the buffers have no rows for its tokens that are passed again");
    plan_no_hidden(core.sequence(scheduled));
  });
  SLUICE_ASSERT(core.batch.fresh_rows() <= core.setup.limits.batch_tokens.count(),
                "a batch keeps to its limit of tokens");
}

/// Whether a block that a layer takes counts as one that passes. `made`: it is a new one.
[[nodiscard]] inline bool counts_as_passing(const ScheduledRequest& scheduled, const KvSequence& sequence, int layer,
                                            std::int64_t block, bool made) {
  return scheduled.place(layer, block) != KvPlace::device ||
         (made && block < sequence.stays_from[static_cast<std::size_t>(layer)]);
}

/// Counts the blocks that an iteration's layers wait for or make into the schedule's room, and requests them. Reuses
/// the memory of its lists.
class BlockNeeds {
 public:
  void collect(MachineCore& core) {
    firsts_.clear();
    others_.clear();
    weights_.clear();
    moving_.clear();
    for (const ScheduledRequest& scheduled : core.batch.requests()) {
      if (scheduled.hosted) continue; // it needs nothing on the device
      const KvSequence& sequence = core.sequence(scheduled);
      if (sequence.has_hidden || sequence.resident != LayerSet::all(core.layers)) moving_.push_back({&scheduled, -1});
    }
    for (int layer = 0; layer < core.layers; ++layer)
      for (Moving& one : moving_) {
        int with_kv = one.previous, with_hidden = one.previous; // within one layer neither waits for the other
        need_layer(core, *one.scheduled, layer, with_kv);
        need_hidden(core, *one.scheduled, layer, with_hidden);
        one.previous = std::max(with_kv, with_hidden);
      }
    for (int layer = 0; layer < core.layers; ++layer)
      for (Moving& one : moving_)
        if (one.scheduled->fresh > 0) need_next_token(core, *one.scheduled, layer, one.previous);
    for (int layer = 0; layer < core.layers; ++layer) {
      if (core.weights.missing(layer) > 0) weights_.push_back({layer, true});
      if (core.weights.streams(layer) && !core.weights.is_coming(layer)) weights_.push_back({layer, false});
    }
    for (int layer = 0; layer < core.layers; ++layer)
      if (core.weights.streams(layer)) weights_.push_back({layer + core.layers, false});
  }
  /// Whether the iteration may move KV.
  [[nodiscard]] bool moves_kv() const { return !moving_.empty(); }
  /// Hands the needs over; the schedule returns the memory of an earlier iteration's lists.
  void begin(LinkSchedule& schedule, TransferOrder order) {
    const std::size_t firsts = firsts_.size();
    firsts_.insert(firsts_.end(), others_.begin(), others_.end());
    schedule.begin(order, firsts_, firsts, weights_);
  }

 private:
  static KvNeed need_of(const MachineCore& core, const ScheduledRequest& scheduled, int layer, int position,
                        int previous) {
    KvNeed need;
    need.slot = index(scheduled.slot);
    need.generation = core.sequences.generation(scheduled.slot);
    need.layer = layer;
    need.position = position;
    need.previous = previous;
    return need;
  }
  void put(const KvNeed& need, int& previous) {
    if (need.done()) return;
    previous = need.position;
    (need.first ? firsts_ : others_).push_back(need);
  }
  /// Whether the blocks can be read, and will not leave before their layer.
  static bool is_here(const BlockRun& run) { return run.state.readable() && !run.leaves(); }

  /// Requests a layer's blocks that only passed in this iteration again, for the next token.
  void need_next_token(MachineCore& core, const ScheduledRequest& scheduled, int layer, int& previous) {
    const int position = layer + core.layers;
    const int before = previous;
    if (scheduled.row->holding.host.contains(layer)) {
      KvNeed next = need_of(core, scheduled, layer, position, before);
      next.end = static_cast<std::int32_t>(std::min(scheduled.head, scheduled.blocks));
      others_.push_back(next);
      previous = position;
    }
    if (scheduled.row->holding.hidden_on_host().contains(layer)) {
      KvNeed next = need_of(core, scheduled, core.layers + layer, position, before);
      const std::int64_t head = std::min(scheduled.head, scheduled.blocks) * core.block_tokens;
      next.end = static_cast<std::int32_t>(
          std::min<std::int64_t>(core.sequence(scheduled).hidden_table(layer).size(), hidden_blocks(core, head)));
      put(next, previous);
    }
  }

  /// Requests the hidden states that the layer starts from, and counts blocks for those that the layer keeps.
  void need_hidden(MachineCore& core, const ScheduledRequest& scheduled, int layer, int& previous) {
    LayerRoom& room = core.schedule.room();
    KvSequence& sequence = core.sequence(scheduled);
    if (!sequence.has_hidden) return;
    if (scheduled.restored.contains(layer)) {
      KvNeed need = need_of(core, scheduled, core.layers + layer, layer, previous);
      sequence.hidden_table(layer).each(0, hidden_blocks(core, scheduled.rebuilt), [&](BlockRun& run) {
        if (is_here(run)) return;
        run.awaited = true;
        room.missing(layer) += run.count;
        if (run.keeps_device()) return; // arriving already
        need.cover(run);
        room.reserved(layer, true) += run.count;
      });
      put(need, previous);
    }
    HiddenTokens& hidden = sequence.hidden[static_cast<std::size_t>(layer)];
    hidden.reserved = hidden_to_take(core, sequence, layer);
    room.reserved(layer, !hidden.stays) += hidden.reserved;
  }

  /// One layer of one request: counts blocks that must be fetched, and blocks that the layer makes.
  void need_layer(MachineCore& core, const ScheduledRequest& scheduled, int layer, int& previous) {
    LayerRoom& room = core.schedule.room();
    KvSequence& sequence = core.sequence(scheduled);
    if (sequence.resident.contains(layer)) return;
    const bool uses = scheduled.uses(layer);
    KvNeed stays = need_of(core, scheduled, layer, layer, previous);
    stays.idle = !uses;
    stays.first = scheduled.whole || stays.idle;
    stays.passing = false;
    stays.copies = sequence.settled_copies;
    KvNeed passes = need_of(core, scheduled, layer, layer, previous);
    passes.copies = stays.copies;
    BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
    table.cut(scheduled.head);
    if (core.reach.bounded.contains(layer)) find_growth(scheduled, sequence, layer);
    std::int64_t missing = 0, to_take[2] = {0, 0}; // the latter for blocks that stay, and for those that pass
    table.each(scheduled.first_block(layer), scheduled.blocks, [&](BlockRun& run) {
      if (is_here(run)) return;
      const bool passing = scheduled.place(layer, run.first) != KvPlace::device;
      if (!run.exists()) { // this layer makes them
        if (uses) to_take[counts_as_passing(scheduled, sequence, layer, run.first, true) ? 1 : 0] += run.count;
        return;
      }
      const bool arriving = run.keeps_device();
      if (!arriving) {
        if (!uses && passing) return; // the layer does not read them, so they stay where they are
        (passing ? passes : stays).cover(run);
      }
      if (!uses) {
        if (!arriving) room.reserved_idle() += run.count;
        return;
      }
      run.awaited = true;
      missing += run.count;
      if (arriving) return;
      to_take[passing ? 1 : 0] += run.count;
      if (!passing && stays.first) {
        run.sooner = true;
        room.first_missing() += run.count;
      }
    });
    room.missing(layer) += missing;
    room.reserved(layer, false) += to_take[0];
    room.reserved(layer, true) += to_take[1];
    put(stays, previous);
    put(passes, previous);
  }

  /// Of a layer that gives blocks back: how many of its new blocks do not replace others on the device.
  static void find_growth(const ScheduledRequest& scheduled, KvSequence& sequence, int layer) {
    BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
    std::int64_t grows = 0;
    table.each(scheduled.first_block(layer), scheduled.first_kept(layer),
               [&](const BlockRun& run) { grows -= run.keeps_device() ? run.count : 0; });
    table.each(scheduled.first_kept(layer), scheduled.blocks,
               [&](const BlockRun& run) { grows += run.exists() ? 0 : run.count; });
    const std::int64_t from = scheduled.blocks - std::max<std::int64_t>(0, grows);
    sequence.stays_from[static_cast<std::size_t>(layer)] = static_cast<std::int32_t>(from);
    table.cut(from);
  }

  std::vector<KvNeed> firsts_, others_;
  std::vector<WeightNeed> weights_;
  /// A scheduled request with KV that is not resident, and the position of its last need so far.
  struct Moving {
    const ScheduledRequest* scheduled = nullptr;
    int previous = -1;
  };
  std::vector<Moving> moving_;
};

} // namespace sluice
