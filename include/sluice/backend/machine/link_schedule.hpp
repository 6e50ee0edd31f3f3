// SPDX-License-Identifier: Apache-2.0
// LinkSchedule: what a link moves next, by the order of a transfer rule and the room that there is.
#pragma once

#include "sluice/backend/machine/fault.hpp"
#include "sluice/backend/machine/kv_sequences.hpp"
#include "sluice/backend/machine/kv_store.hpp"
#include "sluice/backend/machine/layer_room.hpp"
#include "sluice/backend/machine/link_needs.hpp"
#include "sluice/backend/machine/placed_copy.hpp"
#include "sluice/backend/machine/weight_passages.hpp"
#include "sluice/backend/machine/weight_store.hpp"
#include "sluice/core/assert.hpp"
#include "sluice/core/random.hpp"
#include "sluice/core/ring_queue.hpp"
#include "sluice/transfer/pipeline.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// When blocks change hands. Where a device's lanes wait for each other by tickets: when a copy begins, for whatever
/// uses the block next is ordered behind the copy by the device. Elsewhere, and where copies may fail: when the copy
/// has ended.
enum class CopiesCount : std::uint8_t { when_begun, when_ended };

/// The work of the link during an iteration and in the background after it: needs in the order of a transfer rule
/// (`TransferOrder`), what iterations write out, evictions, copies ahead. The lanes of a link ask for one copy after
/// the other, and tell when each has ended, in the same order. Where a link has threads, whoever calls holds the mutex;
/// where it has none, the thread that steps the machine is the only one that calls. No copy is chosen before a lane has
/// room for it, so that a nearer need waits for a farther one at most as long as what is under way takes.
///
/// A copy takes room when it begins. A need that is not the next may take a block only if the layers before it then
/// still have the room that they need, so that no order of transfers can block the computation.
class LinkSchedule {
 public:
  /// With `faults.reorders` blocks come in an order drawn from its seed, within what room and the start of streams
  /// allow.
  LinkSchedule(KvStore& store, KvSequences& sequences, WeightStore& weights, int layers, bool each_way,
               CopiesCount count, const FaultPlan& faults = {})
      : store_(&store),
        sequences_(&sequences),
        weights_(&weights),
        layers_(layers),
        each_way_(each_way),
        count_(count),
        drawn_(faults.reorders ? std::optional{Random{faults.seed}} : std::nullopt),
        room_(layers),
        passages_(weights, layers) {}

  /// Wakes the lane that brings blocks in: there is room that was not there before. Set before any lane has work.
  std::function<void()> wake_inward = [] {};
  /// How the computing thread waits for the link: asleep until `progress` is notified, where lanes have threads.
  std::function<void(std::unique_lock<std::mutex>&)> rest = [this](auto& lock) { progress.wait(lock); };

  std::mutex mutex;
  std::condition_variable progress; ///< something has arrived, or left, or nothing can move

  // By the lanes of the link -----------------------------------------------------------------------------------------

  /// The next copy of a way, which has begun for the schedule.
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
    copy->way = way;
    copy->tag = ++copies_begun_; // each copy draws its own fault
    ++in_flight_;
    last_ = way;
    if (count_ == CopiesCount::when_begun) {
      settle(way, flight, false);
      tell_progress();
    }
    flights(way).push_back(flight);
    return copy;
  }

  /// The first of the copies of a way that were begun has ended, after its last byte.
  void ended(Way way, CopyOutcome outcome, LinkSpan::Time begun, LinkSpan::Time end) {
    const Flight flight = flights(way).front();
    flights(way).pop_front();
    if (way == Way::to_device) note_span(flight, begun, end);
    --in_flight_;
    ++version_;
    SLUICE_ASSERT(count_ == CopiesCount::when_ended || outcome == CopyOutcome::done, "a copy that counts already");
    if (count_ == CopiesCount::when_ended) settle(way, flight, outcome == CopyOutcome::failed);
    if (flight.weights) passages_.ended(flight.piece);
    tell_progress();
  }

  // By the computing thread ------------------------------------------------------------------------------------------

  /// What has come to the device since this was last asked.
  void take_spans(std::vector<LinkSpan>& spans) {
    spans.clear();
    spans.swap(spans_);
  }
  /// Room that weights are still to take, in blocks of KV.
  [[nodiscard]] std::int64_t weights_blocks() const {
    const std::int64_t block = store_->shape().bytes().count();
    return (weights_->to_take().count() + block - 1) / block;
  }
  /// An iteration begins: what it needs, in no particular order. Needs of the last one that were not begun are
  /// forgotten.
  void begin(TransferOrder order, std::vector<KvNeed>& needs, std::vector<WeightNeed>& weights) {
    order_ = order;
    needs_.swap(needs);
    std::sort(needs_.begin(), needs_.end(), [](const KvNeed& a, const KvNeed& b) { // a stable sort allocates
      return a.first != b.first ? a.first : a.position != b.position ? a.position < b.position : a.number < b.number;
    });
    std::size_t copies = spans_.size(); // each may be a span of its own
    for (const KvNeed& need : needs_) copies += need.blocks.size();
    spans_.reserve(std::bit_ceil(copies + 1));
    RingQueue<Flight>& under_way = flights(Way::to_device);
    for (std::size_t i = 0; i < under_way.size(); ++i)
      if (under_way[i].weights) passages_.turn(under_way[i].piece);
    passages_.begin(weights);
    at_ = {};
    computed_ = 0;
    turn_ = 0;
    ++version_;
  }
  /// The device has the layer: nothing of it is fetched any more.
  void launched(int layer) {
    at_.launched = layer + 1;
    ++version_;
  }
  /// The device computes the layer now. Layers before it have been computed.
  void computes(int layer) {
    at_.computing = layer;
    computed_ = std::max(computed_, layer);
    ++version_;
  }
  void computed(int layer) {
    computed_ = layer + 1;
    ++version_;
  }
  [[nodiscard]] LayerRoom& room() { return room_; }
  /// All that a layer needs is on the device.
  [[nodiscard]] bool arrived(int layer) { return room_.arrived(layer) && weights_->ready(layer); }
  /// There is room that was not there before.
  void freed() { ++version_; }
  /// Forgets what the last iteration needed and no lane has begun.
  void forget_needs() {
    for (KvNeed& need : needs_) need.next = need.blocks.size(); // their lists are used again
    passages_.forget();
    room_.forget();
    ++version_;
  }
  /// Waits until something has changed for a layer, or for want of room, or nothing can change.
  void wait(std::unique_lock<std::mutex>& lock, int layer, bool for_room) {
    waiting_layer_ = layer;
    waiting_room_ = for_room;
    rest(lock);
    waiting_layer_ = -1;
    waiting_room_ = false;
  }

  /// Queues a block to be sent. `leaves`: it is then no longer on the device; what is only copied goes while nothing
  /// else does.
  void send(const CellRef& ref, bool leaves) {
    KvCell& cell = *sequences_->find(ref);
    if (cell.queued && cell.leaves == leaves) return;
    // A block that was only to be copied is queued once more: whichever turn comes first counts.
    cell.queued = true;
    cell.leaves = leaves;
    (!leaves ? copies_ : cell.passing ? written_ : evicted_).push_back(ref);
    ++version_;
  }
  /// Whether hidden states are on their way to the host, whose blocks will be free.
  [[nodiscard]] bool sends_hidden() {
    RingQueue<Flight>& sending = flights(Way::to_host);
    for (std::size_t i = 0; i < sending.size(); ++i)
      if (is_hidden(sending[i].ref)) return true;
    for (std::size_t i = 0; i < written_.size(); ++i)
      if (is_hidden(written_[i]) && is_queued(written_[i])) return true;
    return false;
  }
  /// Blocks that are to leave and have not left yet.
  [[nodiscard]] std::int64_t leaving() const { return static_cast<std::int64_t>(evicted_.size()); }
  /// Nothing moves, and nothing can move before another call changes something.
  [[nodiscard]] bool stuck() const {
    return in_flight_ == 0 && computed_ >= at_.launched && idle_at_[0] == version_ && idle_at_[1] == version_;
  }
  /// Waits until no copy of weights is under way, and lets none begin: the plan of the weights is about to change.
  void halt_weights(std::unique_lock<std::mutex>& lock) {
    passages_.halt();
    while (passages_.any_in_flight()) wait(lock, -1, true);
  }
  /// From now on no lane begins anything.
  void halt() { halted_ = true; }
  /// Whether a part of a layer's weights has failed to arrive, twice, since `forgive_weights`.
  [[nodiscard]] bool weights_failed() const { return passages_.failed(); }
  void forgive_weights() { passages_.forgive(); }

 private:
  /// A copy that has begun, and what it is for.
  struct Flight {
    bool weights = false;
    int position = 0; ///< of its need, as it was when the copy began
    WeightPassages::Piece piece;
    CellRef ref;
    std::size_t device_block = 0;
    std::int64_t copies = 0; ///< so many of the oldest blocks of what stays keep their copy on the host
  };

  RingQueue<Flight>& flights(Way way) { return flights_[static_cast<std::size_t>(way)]; }
  std::uint64_t& idle_at(Way way) { return idle_at_[static_cast<std::size_t>(way)]; }
  void tell_progress() {
    if (waiting_room_ || in_flight_ == 0 || (waiting_layer_ >= 0 && arrived(waiting_layer_))) progress.notify_all();
  }

  [[nodiscard]] bool may_start(const KvNeed& need) const {
    if (need.position >= layers_ && at_.launched <= need.position - layers_) return false; // this token still uses it
    switch (order_.start) {
    case TransferOrder::Start::room:
      return true;
    case TransferOrder::Start::previous_layer_starts:
      return need.position == 0 || at_.computing >= need.position - 1;
    case TransferOrder::Start::previous_own_layer_ends:
      return need.previous < 0 || computed_ > need.previous;
    }
    return true;
  }
  /// The first block of a need that could be fetched now, or its end.
  std::size_t fetchable(KvNeed& need) {
    if (need.position < layers_ && at_.launched > need.position) need.next = need.blocks.size(); // it has gone back
    // Hidden states that the layer has begun with are on the host again, and wanted no longer.
    const bool once = need.layer >= layers_ && need.position < layers_;
    const auto cell_of = [&](std::size_t i) -> const KvCell* {
      const KvCell* cell = sequences_->find({need.slot, need.layer, need.blocks[i], need.generation});
      return cell != nullptr && once && !cell->awaited ? nullptr : cell;
    };
    while (need.next < need.blocks.size()) { // skips cells that are on the device already, or gone
      const KvCell* cell = cell_of(need.next);
      if (cell != nullptr && (!cell->on_device() || cell->leaves)) break; // on the host, or will be
      if (cell != nullptr && need.position >= layers_) break;             // on the device, and leaves after this token
      ++need.next;
    }
    for (std::size_t i = need.next; i < need.blocks.size(); ++i) {
      const KvCell* cell = cell_of(i);
      if (cell != nullptr && cell->on_host() && !store_->host_busy(*cell)) return i;
    }
    return need.blocks.size();
  }
  [[nodiscard]] bool has_room(const KvNeed& need) const {
    // Hidden states with which the next layer begins give their block back before the layer takes any.
    if (need.layer >= layers_ && need.position == at_.launched) return store_->free_blocks() > 0;
    const std::int64_t needed =
        need.idle ? room_.needed_before_idle(at_.launched, weights_blocks())
                  : room_.needed_before(need.first ? 0 : need.position, at_.launched, weights_blocks());
    return store_->free_blocks() > needed;
  }

  [[nodiscard]] bool is_queued(const CellRef& ref) {
    const KvCell* cell = sequences_->find(ref);
    return cell != nullptr && cell->queued;
  }
  std::optional<PlacedCopy> next_in(Flight& flight) {
    // On one lane what is written out takes turns with what comes in.
    while (!written_.empty() && !is_queued(written_.front())) written_.pop_front();
    if (!each_way_ && last_ == Way::to_device && !written_.empty()) return std::nullopt;
    constexpr int never = std::numeric_limits<int>::max();
    int nearest = never;
    std::size_t chosen = needs_.size();
    std::size_t chosen_block = 0;
    if (drawn_ && !needs_.empty()) turn_ = drawn_->below(needs_.size());
    const bool equal = order_.share == TransferOrder::Share::equal || drawn_;
    for (std::size_t k = 0; k < needs_.size(); ++k) {
      const std::size_t at = equal ? (turn_ + k) % needs_.size() : k;
      KvNeed& need = needs_[at];
      if (need.next >= need.blocks.size() || !(need.first || may_start(need))) continue;
      if (chosen < needs_.size() && !need.first) continue;
      const std::size_t block = fetchable(need);
      if (block == need.blocks.size() || !has_room(need)) continue;
      nearest = need.first ? -1 : need.position;
      chosen = at;
      chosen_block = block;
      if (need.first || !equal) break;
    }
    if (const std::optional<PlacedCopy> copy = passages_.next(nearest, at_, order_, flight.piece)) {
      flight.weights = true;
      flight.position = flight.piece.position;
      ++version_;
      return copy;
    }
    if (chosen == needs_.size()) return std::nullopt;
    if (equal) turn_ = chosen + 1;
    return fetch(needs_[chosen], chosen_block, flight);
  }
  std::optional<PlacedCopy> fetch(KvNeed& need, std::size_t i, Flight& flight) {
    const CellRef ref{need.slot, need.layer, need.blocks[i], need.generation};
    KvCell& cell = *sequences_->find(ref);
    const std::optional<PlacedCopy> copy = store_->fetch(cell);
    if (!copy) return std::nullopt;
    cell.passing = need.passing;
    flight.ref = ref;
    flight.position = need.position;
    flight.device_block = static_cast<std::size_t>(cell.device);
    flight.copies = need.copies;
    if (cell.awaited)
      --room_.reserved(need.position, need.passing);
    else if (need.idle)
      --room_.reserved_idle();
    ++version_;
    return copy;
  }

  std::optional<PlacedCopy> next_out(Flight& flight) {
    for (RingQueue<CellRef>* queue : {&written_, &evicted_, &copies_})
      while (!queue->empty()) {
        const CellRef ref = queue->front();
        queue->pop_front();
        KvCell* cell = sequences_->find(ref);
        if (cell == nullptr || !cell->queued) continue;
        cell->queued = false;
        std::optional<PlacedCopy> copy;
        [[maybe_unused]] const bool begun = store_->send(*cell, cell->leaves, copy);
        SLUICE_ASSERT(begun || !cell->leaves, "what is to leave can be sent");
        ++version_;
        if (!copy) { // its copy was clean, so it has left; or it is no longer full
          if (!cell->on_device()) cell->leaves = cell->passing = false;
          wake_inward();
          if (waiting_room_) progress.notify_all();
          continue;
        }
        flight.ref = ref;
        flight.device_block = static_cast<std::size_t>(cell->device);
        return copy;
      }
    return std::nullopt;
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
  void settle(Way way, const Flight& flight, bool failed) {
    if (flight.weights)
      passages_.settle(flight.piece, failed);
    else if (way == Way::to_device)
      settle_in(flight, failed);
    else
      settle_out(flight, failed);
  }
  /// The cell whose block was copied, if it still has that block.
  KvCell* copied(const Flight& flight) {
    KvCell* cell = sequences_->find(flight.ref);
    const bool same =
        cell != nullptr && cell->on_device() && static_cast<std::size_t>(cell->device) == flight.device_block;
    return same ? cell : nullptr;
  }
  void settle_in(const Flight& flight, bool failed) {
    KvCell* cell = copied(flight);
    if (cell == nullptr) {
      store_->ended_unwanted(flight.device_block, false);
      return;
    }
    store_->fetched(*cell);
    if (failed && is_hidden(flight.ref) && !cell->restores)
      cell->leaves = true; // fetched ahead: the host has them still
    else if (failed)
      lose(flight.ref, "a transfer to the device failed twice");
    if (cell->leaves) { // the engine no longer wants the block on the device
      std::optional<PlacedCopy> nothing;
      [[maybe_unused]] const bool left = store_->send(*cell, true, nothing);
      SLUICE_ASSERT(left && !nothing, "what has just arrived is clean");
      cell->leaves = cell->passing = false;
      return; // if a layer awaits it, it has been asked for once more
    }
    if (!cell->passing) { // the block stays: with a copy where that is wanted
      if (cell->tokens < store_->shape().tokens) {
        store_->reopen(*cell);
        store_->give_up_copy(*cell);
      } else if (flight.ref.block >= flight.copies) {
        store_->give_up_copy(*cell);
      }
    }
    room_.no_longer_awaited(*cell, flight.ref.layer % layers_); // of hidden states those that enter the layer
  }
  void settle_out(const Flight& flight, bool failed) {
    KvCell* cell = copied(flight);
    if (cell == nullptr) {
      store_->ended_unwanted(flight.device_block, true);
      return;
    }
    if (failed && is_hidden(flight.ref) && !cell->restores) // its layers are passed again where they are wanted
      sequences_->find(Slot{flight.ref.slot})->hidden[static_cast<std::size_t>(flight.ref.layer % layers_)].failed =
          true;
    else if (failed)
      lose(flight.ref, "a transfer to the host failed twice");
    store_->sent(*cell);
    if (cell->on_device()) return;
    cell->leaves = cell->passing = false;
    wake_inward();
  }
  [[nodiscard]] bool is_hidden(const CellRef& ref) const { return ref.layer >= layers_; }
  void lose(const CellRef& ref, std::string_view reason) {
    KvSequence* sequence = sequences_->find(Slot{ref.slot});
    sequence->lost = true;
    sequence->reason = reason;
  }

  KvStore* store_;
  KvSequences* sequences_;
  WeightStore* weights_;
  int layers_;
  bool each_way_;
  CopiesCount count_;
  std::optional<Random> drawn_; ///< where the order is a fault
  TransferOrder order_;

  std::vector<KvNeed> needs_; ///< by position
  std::size_t turn_ = 0;      ///< whose turn it is, under equal shares
  LayerRoom room_;
  WeightPassages passages_;
  RingQueue<CellRef> written_, evicted_, copies_;
  std::array<RingQueue<Flight>, 2> flights_; ///< by way: begun, and not ended

  WeightPassages::Progress at_;
  int computed_ = 0;
  int waiting_layer_ = -1; ///< what the computing thread sleeps for
  bool waiting_room_ = false;
  std::vector<LinkSpan> spans_;
  int in_flight_ = 0;
  Way last_ = Way::to_host;
  std::uint64_t version_ = 1;
  std::uint64_t copies_begun_ = 0;
  std::array<std::uint64_t, 2> idle_at_{0, 0};
  bool halted_ = false;
};

} // namespace sluice
