// SPDX-License-Identifier: Apache-2.0
// LinkSchedule: what a link moves next, by the transfer rule's order and the available room.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/random.hpp"
#include "sluice/core/ring_queue.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/world/host_tier/host_tier_counts.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/kv_needs.hpp"
#include "sluice/world/machine/kv_sequences.hpp"
#include "sluice/world/machine/kv_store.hpp"
#include "sluice/world/machine/weight_store.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// A run of consecutive copies to the device; times are the monotonic clock's.
struct LinkSpan {
  using Time = std::chrono::steady_clock::time_point;
  std::uint32_t slot = 0;
  bool weights = false;
  int position = 0; ///< as in a need
  Time start, end;
};

/// When blocks change hands: when a copy begins, if a device's lanes wait for each other by tickets, since the device
/// orders the block's next use behind the copy; when the copy has ended, on other devices and wherever copies may fail.
enum class CopiesCount : std::uint8_t { when_begun, when_ended };

/// How much looking the choice of copies takes: for benchmarks, and for tests of how it grows.
struct ScheduleLooks {
  std::int64_t needs = 0;  ///< looked at, over all choices of a copy to the device
  std::int64_t copies = 0; ///< chosen
};

/// The link's work during an iteration and after it: needs in the order of a `TransferOrder`, KV that iterations write
/// out, evictions, early copies. A link's lanes ask for one copy after the other, and report their ends in that order.
/// With threads in the link, every caller holds the mutex; without, only the machine's thread calls. A copy is chosen
/// only when a lane has room, so a nearer need waits for a farther one no longer than the copies under way take.
///
/// A copy takes room when it begins. A need that is not the next may take a block only if the layers before it still
/// have the room they need; so no order of transfers can block the computation.
class LinkSchedule {
 public:
  /// With `faults.reorders`, blocks come in an order drawn from its seed, within what room and the start of streams
  /// allow. `run`: the most neighbouring blocks that one copy moves.
  LinkSchedule(KvStore& store, KvSequences& sequences, WeightStore& weights, int layers, bool each_way,
               CopiesCount count, std::int64_t run = 1, const FaultPlan& faults = {})
      : store_(&store),
        sequences_(&sequences),
        weights_(&weights),
        layers_(layers),
        each_way_(each_way),
        count_(count),
        run_(run),
        drawn_(faults.reorders ? std::optional{Random{faults.seed}} : std::nullopt),
        needs_(layers),
        room_(layers),
        passages_(weights, layers) {}

  mutable std::mutex mutex;
  std::condition_variable progress; ///< something arrived or left, or nothing can move: for links with threads

  // By the lanes of the link -----------------------------------------------------------------------------------------

  /// The next copy of a way; the schedule counts it as begun.
  std::optional<PlacedCopy> next(Way way) {
    if (halted_) return std::nullopt;
    Flight flight;
    std::optional<PlacedCopy> copy = way == Way::to_device ? next_in(flight) : next_out(flight);
    if (!copy) {
      if (idle_at(way) != version_) {
        idle_at(way) = version_;
        progress.notify_all();
      }
      return std::nullopt;
    }
    flight.bytes = copy->total();
    copy->way = way;
    copy->tag = ++copies_begun_; // each copy draws its own fault
    ++in_flight_;
    last_ = way;
    if (count_ == CopiesCount::when_begun) {
      complete(way, flight, false);
      notify_progress();
    }
    flights(way).push_back(flight);
    return copy;
  }

  /// The oldest copy under way has ended, after its last byte. Returns whether a device block became free, so that a
  /// lane to the device that found no room may ask again.
  [[nodiscard]] bool ended(Way way, CopyOutcome outcome, LinkSpan::Time begun, LinkSpan::Time end) {
    const Flight flight = flights(way).front();
    flights(way).pop_front();
    if (way == Way::to_device) note_span(flight, begun, end);
    if (!flight.weights && outcome == CopyOutcome::done)
      moved_[static_cast<std::size_t>(way)].add(flight.bytes, end - begun);
    --in_flight_;
    SLUICE_ASSERT(count_ == CopiesCount::when_ended || outcome == CopyOutcome::done, "a copy that counts already");
    if (count_ == CopiesCount::when_ended) complete(way, flight, outcome == CopyOutcome::failed);
    if (flight.weights) passages_.ended(flight.piece);
    changed(now());
    notify_progress();
    return way == Way::to_host;
  }

  // By the computing thread ------------------------------------------------------------------------------------------

  /// Transfers that have arrived on the device since the last call.
  void take_spans(std::vector<LinkSpan>& spans) {
    spans.clear();
    spans.swap(spans_);
  }
  /// Room that weights will still take, in KV blocks.
  [[nodiscard]] std::int64_t weights_blocks() const {
    const std::int64_t block = store_->shape().bytes().count();
    return (weights_->to_take().count() + block - 1) / block;
  }
  /// An iteration begins. `needs`: first the `firsts` that come before any other, then the rest by position; they are
  /// exchanged for an earlier iteration's, whose memory the caller may use again. Needs of the previous iteration that
  /// have not begun are forgotten.
  void begin(TransferOrder order, std::vector<KvNeed>& needs, std::size_t firsts, std::vector<WeightNeed>& weights) {
    order_ = order;
    needs_.begin(needs, firsts, order.start, now());
    RingQueue<Flight>& under_way = flights(Way::to_device);
    for (std::size_t i = 0; i < under_way.size(); ++i)
      if (under_way[i].weights) passages_.turn(under_way[i].piece);
    passages_.begin(weights);
    at_ = {};
    turn_ = 0;
    changed(now());
  }
  /// The device was given the layer, of which no more blocks are fetched.
  void launched(int layer) {
    at_.launched = layer + 1;
    reach();
  }
  /// The device computes the layer now. Layers before it have been computed.
  void computes(int layer) {
    at_.computing = layer;
    at_.computed = std::max(at_.computed, layer);
    reach();
  }
  void computed(int layer) {
    at_.computing = std::max(at_.computing, layer); // a short layer may end before anyone has seen it start
    at_.computed = layer + 1;
    reach();
  }
  [[nodiscard]] LayerRoom& room() { return room_; }
  /// Whether everything that a layer needs is on the device.
  [[nodiscard]] bool arrived(int layer) { return room_.arrived(layer) && weights_->ready(layer); }
  /// Room has become free.
  void freed() { ++version_; }
  /// Forgets the previous iteration's needs that no lane has begun.
  void forget_needs() {
    needs_.forget();
    passages_.forget();
    room_.forget();
    ++version_;
  }
  /// What the computing thread waits for from now on: a layer, and room if `for_room`.
  void awaits(int layer, bool for_room) {
    waiting_layer_ = layer;
    waiting_room_ = for_room;
  }

  /// The plan wants the run, which begins at `ref`, on the host: it is queued to be sent, or leaves at once or when its
  /// copy ends. Blocks that pass go before others, which go before copies made ahead.
  void evict(const BlockRef& ref, BlockRun& run) {
    const bool passed = run.passes();
    if (!store_->step(run, BlockEvent::evict)) return; // it leaves already
    if (run.queued()) queue(passed ? written_ : evicted_, {ref, run.count, now()});
    ++version_;
  }
  /// The plan wants a copy of the full blocks on the host.
  void copy_ahead(const BlockRef& ref, BlockRun& run) {
    if (!store_->step(run, BlockEvent::copy_ahead)) return;
    queue(copies_, {ref, run.count, now()});
    ++version_;
  }
  /// Whether hidden states are on their way to the host, whose blocks will become free.
  [[nodiscard]] bool sends_hidden() {
    RingQueue<Flight>& sending = flights(Way::to_host);
    for (std::size_t i = 0; i < sending.size(); ++i)
      if (is_hidden(sending[i].ref)) return true;
    for (std::size_t i = 0; i < written_.size(); ++i)
      if (is_hidden(written_[i].ref) && first_queued(written_[i]).table != nullptr) return true;
    return false;
  }
  /// Whether copies that are made ahead wait to cross, or anything is on its way to the host.
  [[nodiscard]] bool sends_ahead() { return !copies_.empty() || !flights(Way::to_host).empty(); }
  /// Blocks that have to leave and have not left yet, without those that only pass.
  [[nodiscard]] std::int64_t leaving() const {
    std::int64_t blocks = 0;
    for (std::size_t i = 0; i < evicted_.size(); ++i) blocks += evicted_[i].count;
    return blocks;
  }
  /// Whether nothing moves, and nothing can move before another call changes something.
  [[nodiscard]] bool stuck() const {
    return in_flight_ == 0 && at_.computed >= at_.launched && idle_at_[0] == version_ && idle_at_[1] == version_;
  }
  /// Whether nothing moves, and nothing will before blocks are evicted or another iteration begins.
  [[nodiscard]] bool at_rest() const {
    return in_flight_ == 0 && needs_.size() == 0 && passages_.at_rest() && written_.empty() && evicted_.empty() &&
           copies_.empty();
  }
  /// Lets no copy of weights begin: the plan of the weights is about to change, once none is under way.
  void halt_weights() { passages_.halt(); }
  [[nodiscard]] bool moves_weights() const { return passages_.any_in_flight(); }
  /// No lane begins anything from now on.
  void halt() { halted_ = true; }
  /// Whether a transfer of a layer's weights has failed twice since `forgive_weights`.
  [[nodiscard]] bool weights_failed() const { return passages_.failed(); }
  void forgive_weights() { passages_.forgive(); }
  [[nodiscard]] const ScheduleLooks& looks() const { return looks_; }
  /// KV and hidden states that have crossed the link.
  [[nodiscard]] const KvMoved& moved(Way way) const { return moved_[static_cast<std::size_t>(way)]; }

 private:
  /// Neighbouring blocks of a table that were queued.
  struct Outgoing {
    BlockRef ref; ///< the first
    std::int32_t count = 0;
    CopySince since{}; ///< when the first of them was queued
  };
  /// The run of a table with which the next copy begins; no table: there is none.
  struct Queued {
    BlockTable* table = nullptr;
    std::size_t run = 0;
  };
  /// A copy that has begun, and its purpose.
  struct Flight {
    bool weights = false;
    int position = 0; ///< of its need, when the copy began
    WeightPassages::Piece piece;
    BlockRef ref; ///< the first block
    std::int32_t count = 0;
    std::int32_t device = 0, host = 0; ///< the first block in each memory
    std::int64_t copies = 0;           ///< how many of the oldest resident blocks keep their copy on the host
    std::int64_t bytes = 0;
  };
  RingQueue<Flight>& flights(Way way) { return flights_[static_cast<std::size_t>(way)]; }
  std::uint64_t& idle_at(Way way) { return idle_at_[static_cast<std::size_t>(way)]; }
  void notify_progress() {
    if (waiting_room_ || in_flight_ == 0 || (waiting_layer_ >= 0 && arrived(waiting_layer_))) progress.notify_all();
  }

  /// The time at which what is queued or opened now may begin, for a link that makes up for its threads' delays.
  [[nodiscard]] CopySince now() const {
    return count_ == CopiesCount::when_ended ? std::chrono::steady_clock::now() : CopySince::min();
  }
  void reach() {
    const CopySince time = now();
    needs_.reach(at_, time);
    changed(time);
  }
  /// Something may begin that could not before.
  void changed(CopySince time) {
    passages_.open(at_, order_.start, time);
    ++version_;
  }
  /// The first block of a need that could be fetched now, or the end of its blocks.
  std::int32_t fetchable(KvNeed& need) {
    if (need.position < layers_ && at_.launched > need.position) need.next = need.end; // its blocks have gone back
    BlockTable* const table = sequences_->table({need.slot, need.layer, 0, need.generation});
    need.end = std::min(need.end, table == nullptr ? 0 : static_cast<std::int32_t>(table->size()));
    if (need.done()) return need.end;
    // Hidden states that the layer has already read are on the host again, and not needed any more.
    const bool once = need.layer >= layers_ && need.position < layers_;
    const auto wanted = [&](const BlockRun& run) {
      return (run.on_host() || run.leaves()) && (!once || run.awaited); // on the host, or will be
    };
    const std::span<const BlockRun> runs = table->runs();
    std::size_t at = table->find(need.next);
    for (; !need.done() && !wanted(runs[at]); ++at) need.next = std::min(runs[at].end(), need.end);
    for (; at < runs.size() && runs[at].first < need.end; ++at)
      if (wanted(runs[at]) && runs[at].on_host()) return std::max(runs[at].first, need.next);
    return need.end;
  }
  /// How many blocks of a need may be fetched now; 0 or less: none.
  [[nodiscard]] std::int64_t room_for(const KvNeed& need) const {
    const std::int64_t free = store_->free_blocks();
    // Hidden states that the next layer reads give their blocks back before the layer takes any.
    if (need.layer >= layers_ && need.position == at_.launched) return free;
    return free - (need.idle ? room_.needed_before_idle(at_.launched, weights_blocks())
                             : room_.needed_before(need.first ? 0 : need.position, at_.launched, weights_blocks()));
  }

  void queue(RingQueue<Outgoing>& queue, const Outgoing& more) {
    if (!queue.empty()) {
      Outgoing& last = queue.back();
      if (last.ref.slot == more.ref.slot && last.ref.layer == more.ref.layer &&
          last.ref.generation == more.ref.generation && last.ref.block + last.count == more.ref.block) {
        last.count += more.count;
        return;
      }
    }
    queue.push_back(more);
  }
  /// The first of these blocks that is still queued, with which a run begins then. `out` loses the blocks before it.
  Queued first_queued(Outgoing& out) {
    BlockTable* const table = sequences_->departing_table(out.ref);
    if (table == nullptr) return {};
    const std::int32_t end = out.ref.block + out.count;
    for (std::size_t at = table->find(out.ref.block); at < table->runs().size() && (*table)[at].first < end; ++at) {
      const BlockRun& run = (*table)[at];
      if (!run.queued()) continue;
      out.ref.block = std::max(out.ref.block, run.first);
      out.count = end - out.ref.block;
      return {table, table->cut(out.ref.block)};
    }
    return {};
  }
  /// The same for the front of a queue, which loses what is queued no longer.
  Queued first_queued(RingQueue<Outgoing>& queue) {
    for (; !queue.empty(); queue.pop_front())
      if (const Queued first = first_queued(queue.front()); first.table != nullptr) return first;
    return {};
  }
  /// The most neighbouring blocks of the next copy.
  std::int64_t longest_run() {
    return drawn_ ? 1 + static_cast<std::int64_t>(drawn_->below(static_cast<std::uint64_t>(run_))) : run_;
  }

  std::optional<PlacedCopy> next_in(Flight& flight) {
    // On a single lane, outgoing blocks alternate with incoming ones.
    if (!each_way_ && last_ == Way::to_device && first_queued(written_).table != nullptr) return std::nullopt;
    constexpr int never = std::numeric_limits<int>::max();
    for (;;) {
      std::int32_t block = 0;
      const std::size_t chosen = choose(block);
      const int nearest = chosen == needs_.size() ? never : needs_[chosen].first ? -1 : needs_[chosen].position;
      if (const std::optional<PlacedCopy> copy = passages_.next(nearest, flight.piece)) {
        flight.weights = true;
        flight.position = flight.piece.position;
        ++version_;
        return copy;
      }
      if (chosen == needs_.size()) return std::nullopt;
      turn_ = chosen + 1;
      if (join(needs_[chosen], block)) continue;
      std::optional<PlacedCopy> copy = fetch(needs_[chosen], block, flight);
      if (copy) copy->since = needs_[chosen].since;
      return copy;
    }
  }
  /// The open need that is served next, and its block; the number of needs if there is nothing to fetch, or no room.
  std::size_t choose(std::int32_t& block) {
    const std::size_t none = needs_.size();
    if (none == 0) return none;
    if (drawn_) turn_ = drawn_->below(none);
    for (std::size_t i = needs_.open_from(0); i < needs_.firsts(); i = needs_.open_from(i + 1))
      if (look(i, block) == Look::serves) return i;
    // From where one position has no room, no later one has any: needed_before grows with the position.
    std::size_t end = none;
    const auto search = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = needs_.open_from(from); i < std::min(to, end); i = needs_.open_from(i + 1)) {
        const Look seen = look(i, block);
        if (seen == Look::serves) return i;
        // Hidden states that the next layer reads follow their own rule.
        if (seen == Look::no_room && needs_[i].position > at_.launched) end = needs_.first_at(needs_[i].position);
      }
      return none;
    };
    const bool equal = order_.share == TransferOrder::Share::equal || drawn_;
    const std::size_t turn = equal ? std::max(turn_, needs_.firsts()) : needs_.firsts();
    const std::size_t found = search(turn, none);
    return found < none ? found : search(needs_.firsts(), turn);
  }
  enum class Look : std::uint8_t { serves, waits, no_room };
  Look look(std::size_t i, std::int32_t& block) {
    ++looks_.needs;
    KvNeed& need = needs_[i];
    block = fetchable(need);
    if (need.done()) needs_.close(i);
    if (block == need.end) return Look::waits;
    return room_for(need) > 0 ? Look::serves : Look::no_room;
  }
  std::optional<PlacedCopy> fetch(const KvNeed& need, std::int32_t block, Flight& flight) {
    const BlockRef ref{need.slot, need.layer, block, need.generation};
    const std::int64_t most = std::min({longest_run(), std::int64_t{need.end - block}, room_for(need)});
    BlockTable& table = *sequences_->table(ref);
    PlacedCopy copy;
    const std::int32_t count = store_->fetch(table, table.cut(block), most, need.passing, is_hidden(ref), copy);
    if (count == 0) return std::nullopt;
    ++looks_.copies;
    copy.layer = need.layer % layers_;
    note(flight, ref, copy);
    took(need, table, block, count, flight);
    return copy;
  }
  /// A need has its device blocks.
  void took(const KvNeed& need, BlockTable& table, std::int32_t block, std::int32_t count, Flight& flight) {
    flight.position = need.position;
    flight.copies = need.copies;
    sequences_->find(Slot{need.slot})->parked.erase(need.layer % layers_);
    std::int64_t awaited = 0;
    table.each(block, block + count, [&](const BlockRun& run) { awaited += run.awaited ? run.count : 0; });
    if (awaited > 0) room_.reserved(need.position, need.passing) -= awaited;
    if (need.idle) room_.reserved_idle() -= count - awaited;
    ++version_;
  }
  /// One load serves all: if another sequence has fetched the same block of the host tier, or is fetching it, this one
  /// gets the same device blocks, as many as follow, and no copy. False: nobody has.
  bool join(const KvNeed& need, std::int32_t block) {
    const BlockRef ref{need.slot, need.layer, block, need.generation};
    BlockTable& table = *sequences_->table(ref);
    const std::size_t at = table.cut(block);
    const std::int32_t device = store_->copy_of(table[at].host);
    if (device == BlockRun::nowhere) return false;
    Flight rider;
    rider.ref = ref;
    rider.device = device;
    rider.host = table[at].host;
    // All blocks of one copy under way, or blocks whose copies have ended.
    std::int64_t most = need.end - block;
    bool under_way = false;
    RingQueue<Flight>& coming = flights(Way::to_device);
    for (std::size_t i = 0; count_ == CopiesCount::when_ended && i < coming.size(); ++i) {
      const Flight& one = coming[i];
      if (one.weights || one.device + one.count <= device) continue;
      under_way = under_way || one.device <= device;
      most = std::min<std::int64_t>(most, (one.device <= device ? one.device + one.count : one.device) - device);
    }
    rider.count = store_->join(table, at, most, need.passing);
    took(need, table, block, rider.count, rider);
    if (under_way)
      riders_.push_back(rider);
    else
      complete_in(rider, false);
    notify_progress();
    return true;
  }

  std::optional<PlacedCopy> next_out(Flight& flight) {
    for (RingQueue<Outgoing>* queue : {&written_, &evicted_, &copies_}) {
      const Queued first = first_queued(*queue);
      if (first.table == nullptr) continue;
      Outgoing& out = queue->front();
      const BlockRef ref = out.ref;
      PlacedCopy copy;
      const std::int32_t count =
          store_->send(*first.table, first.run, std::min<std::int64_t>(out.count, longest_run()), is_hidden(ref), copy);
      copy.since = out.since;
      note(flight, ref, copy);
      out.ref.block += count;
      out.count -= count;
      if (out.count == 0) queue->pop_front();
      ++version_;
      return copy;
    }
    return std::nullopt;
  }
  static void note(Flight& flight, const BlockRef& ref, const PlacedCopy& copy) {
    flight.ref = ref;
    flight.count = copy.device.count;
    flight.device = copy.device.index;
    flight.host = copy.host_block;
  }

  void note_span(const Flight& flight, LinkSpan::Time begun, LinkSpan::Time end) {
    if (!spans_.empty()) {
      LinkSpan& last = spans_.back();
      if (last.weights == flight.weights && last.position == flight.position &&
          (flight.weights || last.slot == flight.ref.slot)) {
        last.end = end;
        return;
      }
    }
    spans_.push_back({flight.ref.slot, flight.weights, flight.position, begun, end});
  }

  /// Blocks change hands.
  void complete(Way way, const Flight& flight, bool failed) {
    if (flight.weights) return passages_.complete(flight.piece, failed);
    const BlockRange blocks = range(flight.device, flight.count);
    store_->ended(blocks);
    for (RingQueue<Flight>& others : flights_)
      for (std::size_t i = 0; count_ == CopiesCount::when_ended && i < others.size(); ++i) {
        const std::int32_t from = std::max(flight.device, others[i].device);
        const std::int32_t end = std::min(flight.device + flight.count, others[i].device + others[i].count);
        if (from < end) store_->moves(range(from, end - from));
      }
    if (way == Way::to_host) return complete_out(flight, failed);
    if (failed) store_->forget_copies(blocks);
    complete_in(flight, failed);
    std::erase_if(riders_, [&](const Flight& rider) {
      const bool ends = rider.device >= flight.device && rider.device < flight.device + flight.count;
      if (ends) complete_in(rider, failed);
      return ends;
    });
  }
  [[nodiscard]] static BlockRange range(std::int32_t first, std::int32_t count) {
    return {static_cast<std::size_t>(first), static_cast<std::size_t>(count)};
  }
  /// Calls `ended(run)` for the blocks of a copy that their table still has; the others' memory is free now.
  template <class Ended>
  void each_copied(const Flight& flight, const Ended& ended) {
    BlockTable* const table = sequences_->departing_table(flight.ref);
    for (std::int32_t done = 0; done < flight.count;) {
      const std::int32_t block = flight.ref.block + done;
      std::int32_t count = flight.count - done;
      BlockRun* run = nullptr;
      if (const std::size_t at = table == nullptr ? 0 : table->find(block);
          table != nullptr && at < table->runs().size()) {
        count = std::min(count, (*table)[at].end() - block);
        BlockRun& there = (*table)[at];
        if (there.state.in_transfer() && there.first == block && there.device == flight.device + done) run = &there;
      }
      if (run != nullptr)
        ended(*run); // no run reaches beyond its copy
      else
        store_->ended_unwanted(range(flight.device + done, count), range(flight.host + done, count));
      done += count;
    }
  }
  void complete_in(const Flight& flight, bool failed) {
    const bool hidden = is_hidden(flight.ref);
    bool lost = false;
    // A block that stays keeps its copy on the host if that is wanted, and if it is full.
    if (BlockTable* const table = sequences_->table(flight.ref);
        table != nullptr && flight.copies > flight.ref.block && flight.copies < flight.ref.block + flight.count)
      table->cut(flight.copies);
    each_copied(flight, [&](BlockRun& run) {
      if (failed && hidden && !run.restores)
        store_->step(run, BlockEvent::evict); // fetched ahead: the host still has the block
      else if (failed)
        lost = true;
      store_->arrived(run);
      if (!run.on_device()) return; // unwanted by now: if a layer awaits it, it has been requested again
      if (!run.passes() && (run.tokens < store_->shape().tokens || run.first >= flight.copies))
        store_->step(run, BlockEvent::give_up_copy);
      room_.no_longer_awaited(run, flight.ref.layer % layers_); // hidden states belong to the layer that they enter
    });
    if (lost) sequences_->lose(flight.ref, "a transfer to the device failed twice");
  }
  void complete_out(const Flight& flight, bool failed) {
    const bool hidden = is_hidden(flight.ref);
    bool lost = false;
    each_copied(flight, [&](BlockRun& run) {
      if (failed && hidden && !run.restores) // its layers are passed again if needed
        sequences_->find(Slot{flight.ref.slot})->hidden[static_cast<std::size_t>(flight.ref.layer % layers_)].failed =
            true;
      else if (failed && !sequences_->only_for_tier(flight.ref, run))
        lost = true;
      store_->sent(run);
      if (failed && sequences_->only_for_tier(flight.ref, run)) store_->step(run, BlockEvent::give_up_copy);
    });
    if (lost) sequences_->lose(flight.ref, "a transfer to the host failed twice");
  }
  [[nodiscard]] bool is_hidden(const BlockRef& ref) const { return ref.layer >= layers_; }

  KvStore* store_;
  KvSequences* sequences_;
  WeightStore* weights_;
  int layers_;
  bool each_way_;
  CopiesCount count_;
  std::int64_t run_;            ///< the most neighbouring blocks of a copy
  std::optional<Random> drawn_; ///< set if the order is a fault
  TransferOrder order_;

  KvNeeds needs_;
  std::size_t turn_ = 0; ///< the need whose turn it is, under equal shares
  LayerRoom room_;
  WeightPassages passages_;
  RingQueue<Outgoing> written_, evicted_, copies_; ///< blocks to be sent: written by layers, evicted, copied ahead
  std::array<RingQueue<Flight>, 2> flights_;       ///< by way: begun, and not ended
  std::vector<Flight> riders_;                     ///< of a copy under way: blocks of others that hold its destination

  IterationProgress at_;
  int waiting_layer_ = -1; ///< what the computing thread waits for
  bool waiting_room_ = false;
  std::vector<LinkSpan> spans_;
  std::array<KvMoved, 2> moved_; ///< by way
  ScheduleLooks looks_;
  int in_flight_ = 0;
  Way last_ = Way::to_host;
  std::uint64_t version_ = 1, copies_begun_ = 0;
  std::array<std::uint64_t, 2> idle_at_{0, 0};
  bool halted_ = false;
};

} // namespace sluice
