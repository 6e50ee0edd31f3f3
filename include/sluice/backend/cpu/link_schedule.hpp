// SPDX-License-Identifier: Apache-2.0
// LinkSchedule: what a copy engine moves next, by the order of a transfer rule and the room that there is.
#pragma once

#include "sluice/backend/cpu/copy.hpp"
#include "sluice/backend/cpu/fault.hpp"
#include "sluice/backend/cpu/kv_sequences.hpp"
#include "sluice/backend/cpu/kv_store.hpp"
#include "sluice/backend/cpu/weight_store.hpp"
#include "sluice/core/assert.hpp"
#include "sluice/core/random.hpp"
#include "sluice/transfer/pipeline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// KV of one layer of one sequence that is to be on the device before that layer computes.
struct KvNeed {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;
  int layer = 0;
  int position = 0;        ///< the layer; L more where it is the next token's
  int previous = -1;       ///< position of its sequence's offloaded layer before this one; -1: none
  bool first = false;      ///< before any other, and before the first layer starts
  bool passing = true;     ///< for one iteration; false: it stays
  bool idle = false;       ///< no layer computes with it in this iteration
  std::int64_t copies = 0; ///< of KV that stays: so many of its oldest blocks keep their copy on the host
  std::vector<std::int32_t> blocks;
  std::size_t next = 0; ///< of `blocks`, the first that has not been begun
};

/// A layer's weights that are to be there before it computes.
struct WeightNeed {
  int position = 0;
  bool returns = false; ///< for good; else through a slot
};

/// One run of copies to the device that belong together; times are the monotonic clock's.
struct LinkSpan {
  using Time = std::chrono::steady_clock::time_point;
  std::uint32_t slot = 0;
  bool weights = false;
  int position = 0; ///< as of a need
  Time start, end;
};

/// The work of the link during an iteration and in the background after it: needs in the order of a transfer rule
/// (`TransferOrder`), what iterations write out, evictions, copies ahead. A `CopySource`: lanes ask for one copy after
/// the other and tell when it has ended. Everything here happens under one mutex, which the computing thread takes
/// between layers. No copy is chosen before a lane is idle, so that a nearer need waits for a farther one at most as
/// long as one copy takes.
///
/// A copy takes room when it begins. A need that is not the next may take a block only if the layers before it then
/// still have the room that they need, so that no order of transfers can block the computation.
class LinkSchedule {
 public:
  /// With `faults.reorders` blocks come in an order drawn from its seed, within what room and the start of streams
  /// allow.
  LinkSchedule(KvStore& store, KvSequences& sequences, WeightStore& weights, int layers, bool each_way,
               const FaultPlan& faults = {})
      : store_(&store),
        sequences_(&sequences),
        weights_(&weights),
        layers_(layers),
        each_way_(each_way),
        drawn_(faults.reorders ? std::optional{Random{faults.seed}} : std::nullopt),
        missing_(static_cast<std::size_t>(layers)),
        passing_(static_cast<std::size_t>(layers)),
        staying_(static_cast<std::size_t>(layers)) {}

  /// Wakes the lane that brings blocks in: there is room that was not there before. Set before any lane has work.
  std::function<void()> wake_inward = [] {};

  std::mutex mutex;
  std::condition_variable progress; ///< something has arrived, or left, or nothing can move

  // By the copy engine's lanes ---------------------------------------------------------------------------------------

  std::optional<Copy> next(Way way) {
    const std::lock_guard lock{mutex};
    if (halted_) return std::nullopt;
    std::optional<Copy> copy = way == Way::to_device ? next_in() : next_out();
    if (copy) {
      copy->tag = ++copies_begun_; // each copy draws its own fault
      if (way == Way::to_device) span_.start = std::chrono::steady_clock::now();
      ++in_flight_;
      last_ = way;
    } else if (idle_at_[static_cast<std::size_t>(way)] != version_) {
      idle_at_[static_cast<std::size_t>(way)] = version_;
      progress.notify_all();
    }
    return copy;
  }

  void ended(Way way, const Copy& /*copy*/, CopyOutcome outcome) {
    const std::lock_guard lock{mutex};
    if (way == Way::to_device) note_span();
    --in_flight_;
    ++version_;
    const bool failed = outcome == CopyOutcome::failed;
    if (way == Way::to_host)
      ended_out(failed);
    else if (weights_in_flight_)
      ended_weights(failed);
    else
      ended_in(failed);
    if (waiting_room_ || in_flight_ == 0 || (waiting_layer_ >= 0 && arrived(waiting_layer_))) progress.notify_all();
  }

  /// What has come to the device since this was last asked.
  void take_spans(std::vector<LinkSpan>& spans) {
    const std::lock_guard lock{mutex};
    spans.clear();
    spans.swap(spans_);
  }

  /// Room that weights are still to take, in blocks of KV.
  [[nodiscard]] std::int64_t weights_blocks() const {
    const std::int64_t block = store_->shape().bytes().count();
    return (weights_->to_take().count() + block - 1) / block;
  }

  // By the computing thread, which holds the mutex --------------------------------------------------------------------

  /// An iteration begins: what it needs, in no particular order. Needs of the last one that were not begun are
  /// forgotten.
  void begin(TransferOrder order, std::vector<KvNeed>& needs, std::vector<WeightNeed>& weights) {
    order_ = order;
    needs_.swap(needs);
    std::stable_sort(needs_.begin(), needs_.end(), [](const KvNeed& a, const KvNeed& b) {
      return a.first != b.first ? a.first : a.position < b.position;
    });
    if (passage_position_ >= layers_) passage_position_ -= layers_;
    weight_needs_.swap(weights);
    next_weight_ = 0;
    computing_ = -1;
    computed_ = 0;
    turn_ = 0;
    ++version_;
  }
  void starts(int layer) {
    computing_ = layer;
    ++version_;
  }
  void ends(int layer) {
    computed_ = layer + 1;
    ++version_;
  }
  /// Blocks of a layer that must arrive before it computes.
  std::int64_t& missing(int layer) { return missing_[static_cast<std::size_t>(layer)]; }
  /// Device blocks that a layer has still to take: for as long as it computes (`passing`), or for good.
  std::int64_t& reserved(int layer, bool passing) {
    return (passing ? passing_ : staying_)[static_cast<std::size_t>(layer)];
  }
  /// The same of blocks that no layer waits for.
  std::int64_t& reserved_idle() { return idle_; }
  /// Blocks that must arrive before the first layer.
  std::int64_t& first_missing() { return first_missing_; }
  /// All that a layer needs is on the device.
  [[nodiscard]] bool arrived(int layer) {
    return missing_[static_cast<std::size_t>(layer)] == 0 && (layer > 0 || first_missing_ == 0) &&
           weights_->ready(layer);
  }
  /// There is room that was not there before.
  void freed() { ++version_; }
  /// Forgets what the last iteration needed and no lane has begun.
  void forget_needs() {
    needs_.clear();
    weight_needs_.clear();
    next_weight_ = 0;
    std::fill(missing_.begin(), missing_.end(), 0);
    std::fill(passing_.begin(), passing_.end(), 0);
    std::fill(staying_.begin(), staying_.end(), 0);
    first_missing_ = idle_ = 0;
    ++version_;
  }
  /// A cell has arrived, or is no longer needed.
  void no_longer_awaited(KvCell& cell, int layer) {
    if (std::exchange(cell.awaited, false)) --missing_[static_cast<std::size_t>(layer)];
    if (std::exchange(cell.first, false)) --first_missing_;
  }
  /// Waits until something has changed for a layer, or for want of room, or nothing can change.
  template <class Lock>
  void wait(Lock& lock, int layer, bool for_room) {
    waiting_layer_ = layer;
    waiting_room_ = for_room;
    progress.wait(lock);
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
  /// Blocks that are to leave and have not left yet.
  [[nodiscard]] std::int64_t leaving() const { return static_cast<std::int64_t>(evicted_.size()); }
  /// Nothing moves, and nothing can move before another call changes something.
  [[nodiscard]] bool stuck() const { return in_flight_ == 0 && idle_at_[0] == version_ && idle_at_[1] == version_; }
  /// Waits until no copy of weights is under way, and lets none begin: the plan of the weights is about to change.
  template <class Lock>
  void halt_weights(Lock& lock) {
    weight_needs_.clear();
    passage_.reset();
    while (weights_in_flight_) wait(lock, -1, true);
  }
  /// From now on no lane begins anything.
  void halt() { halted_ = true; }
  /// Whether a part of a layer's weights has failed to arrive, twice, since `forgive_weights`.
  [[nodiscard]] bool weights_failed() const { return weights_failed_; }
  void forgive_weights() { weights_failed_ = false; }

 private:
  [[nodiscard]] bool may_start(const KvNeed& need) const {
    if (need.position >= layers_ && computed_ <= need.position - layers_) return false; // this token still uses it
    switch (order_.start) {
    case TransferOrder::Start::room:
      return true;
    case TransferOrder::Start::previous_layer_starts:
      return need.position == 0 || computing_ >= need.position - 1;
    case TransferOrder::Start::previous_own_layer_ends:
      return need.previous < 0 || computed_ > need.previous;
    }
    return true;
  }
  /// The first block of a need that could be fetched now, or its end.
  std::size_t fetchable(KvNeed& need) {
    if (need.position < layers_ && computed_ > need.layer) need.next = need.blocks.size(); // it has gone back
    const auto cell_of = [&](std::size_t i) {
      return sequences_->find({need.slot, need.layer, need.blocks[i], need.generation});
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
  /// Whether a block for `position` leaves the layers before it what they still need: each needs the room that it takes
  /// while it computes, and the room of all that stays by then.
  [[nodiscard]] bool has_room(int position) const {
    std::int64_t needed = weights_blocks();
    std::int64_t staying = needed;
    for (int layer = computed_; layer < std::min(position, layers_); ++layer) {
      staying += staying_[static_cast<std::size_t>(layer)];
      needed = std::max(needed, staying + passing_[static_cast<std::size_t>(layer)]);
    }
    if (position >= layers_) needed = std::max(needed, staying + idle_);
    return store_->free_blocks() > needed;
  }
  [[nodiscard]] bool has_room(const KvNeed& need) const {
    if (!need.idle) return has_room(need.first ? 0 : need.position);
    return has_room(layers_ - 1) && store_->free_blocks() > weights_blocks() + staying_.back() + passing_.back();
  }

  [[nodiscard]] bool is_queued(const CellRef& ref) {
    const KvCell* cell = sequences_->find(ref);
    return cell != nullptr && cell->queued;
  }
  std::optional<Copy> next_in() {
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
    if (const std::optional<Copy> copy = next_weights(nearest)) return copy;
    if (chosen == needs_.size()) return std::nullopt;
    if (equal) turn_ = chosen + 1;
    return fetch(needs_[chosen], chosen_block);
  }
  std::optional<Copy> fetch(KvNeed& need, std::size_t i) {
    const CellRef ref{need.slot, need.layer, need.blocks[i], need.generation};
    KvCell& cell = *sequences_->find(ref);
    std::optional<Copy> copy = store_->fetch(cell);
    if (!copy) return std::nullopt;
    cell.passing = need.passing;
    in_ = {ref, static_cast<std::size_t>(cell.device), need.copies};
    span_.slot = need.slot;
    span_.weights = false;
    span_.position = need.position;
    if (cell.awaited)
      --reserved(need.layer, need.passing);
    else if (need.idle)
      --idle_;
    ++version_;
    return copy;
  }

  /// Weights come before KV that is needed no earlier than the end of their layer, and after KV of their own layer.
  std::optional<Copy> next_weights(int kv_position) {
    if (!passage_) {
      if (next_weight_ >= weight_needs_.size()) return std::nullopt;
      const WeightNeed& need = weight_needs_[next_weight_];
      if (kv_position <= need.position) return std::nullopt;
      if (need.position >= layers_ && computed_ <= need.position - layers_) return std::nullopt;
      if (order_.start == TransferOrder::Start::previous_layer_starts && computing_ < need.position - 1)
        return std::nullopt;
      const int layer = need.position % layers_;
      passage_ = need.returns ? weights_->begin_return(layer) : weights_->begin_stream(layer);
      if (!passage_) return std::nullopt;
      passage_returns_ = need.returns;
      passage_position_ = need.position;
      passage_ahead_ = need.position >= layers_;
      ++next_weight_;
    } else if (kv_position < passage_position_) {
      return std::nullopt;
    }
    weights_in_flight_ = true;
    span_.weights = true;
    span_.position = passage_position_;
    ++version_;
    return weights_->next_piece(*passage_);
  }

  std::optional<Copy> next_out() {
    for (std::deque<CellRef>* queue : {&written_, &evicted_, &copies_})
      while (!queue->empty()) {
        const CellRef ref = queue->front();
        queue->pop_front();
        KvCell* cell = sequences_->find(ref);
        if (cell == nullptr || !cell->queued) continue;
        cell->queued = false;
        std::optional<Copy> copy;
        [[maybe_unused]] const bool begun = store_->send(*cell, cell->leaves, copy);
        SLUICE_ASSERT(begun || !cell->leaves, "what is to leave can be sent");
        ++version_;
        if (!copy) { // its copy was clean, so it has left; or it is no longer full
          if (!cell->on_device()) cell->leaves = cell->passing = false;
          wake_inward();
          if (waiting_room_) progress.notify_all();
          continue;
        }
        out_ = {ref, static_cast<std::size_t>(cell->device), 0};
        return copy;
      }
    return std::nullopt;
  }

  void note_span() {
    span_.end = std::chrono::steady_clock::now();
    if (!spans_.empty()) {
      LinkSpan& last = spans_.back();
      if (last.weights == span_.weights && last.position == span_.position &&
          (span_.weights || last.slot == span_.slot)) {
        last.end = span_.end;
        return;
      }
    }
    spans_.push_back(span_);
  }
  void ended_in(bool failed) {
    KvCell* cell = sequences_->find(in_.ref);
    if (cell == nullptr || !cell->on_device() || static_cast<std::size_t>(cell->device) != in_.device_block) {
      store_->ended_unwanted(in_.device_block, false);
      return;
    }
    if (failed) lose(in_.ref, "a transfer of its KV to the device failed twice");
    store_->fetched(*cell);
    if (cell->leaves) { // the engine no longer wants the block on the device
      std::optional<Copy> nothing;
      [[maybe_unused]] const bool left = store_->send(*cell, true, nothing);
      SLUICE_ASSERT(left && !nothing, "what has just arrived is clean");
      cell->leaves = cell->passing = false;
      return; // if a layer awaits it, it has been asked for once more
    }
    if (!cell->passing) { // the block stays: with a copy where that is wanted
      if (cell->tokens < store_->shape().tokens) {
        store_->reopen(*cell);
        store_->give_up_copy(*cell);
      } else if (in_.ref.block >= in_.copies) {
        store_->give_up_copy(*cell);
      }
    }
    no_longer_awaited(*cell, in_.ref.layer);
  }
  void ended_out(bool failed) {
    KvCell* cell = sequences_->find(out_.ref);
    if (cell == nullptr || !cell->on_device() || static_cast<std::size_t>(cell->device) != out_.device_block) {
      store_->ended_unwanted(out_.device_block, true);
      return;
    }
    if (failed) lose(out_.ref, "a transfer of its KV to the host failed twice");
    store_->sent(*cell);
    if (cell->on_device()) return;
    cell->leaves = cell->passing = false;
    wake_inward();
  }
  /// A part that failed for good leaves nothing behind. What was fetched ahead is asked for once more, by the iteration
  /// that needs it; any other failure fails the requests that compute with the weights.
  void ended_weights(bool failed) {
    weights_in_flight_ = false;
    if (!passage_) return;
    if (failed) {
      if (!passage_returns_) weights_->computed(passage_->layer);
      if (!passage_ahead_)
        weights_failed_ = true;
      else if (passage_position_ < layers_)
        weight_needs_.insert(weight_needs_.begin() + static_cast<std::ptrdiff_t>(next_weight_),
                             {passage_position_, passage_returns_});
      passage_.reset();
      return;
    }
    if (!passage_->done()) return;
    if (passage_returns_)
      weights_->returned(passage_->layer);
    else
      weights_->streamed(passage_->layer);
    passage_.reset();
  }
  void lose(const CellRef& ref, std::string_view reason) {
    KvSequence* sequence = sequences_->find(Slot{ref.slot});
    sequence->lost = true;
    sequence->reason = reason;
  }

  struct InFlight {
    CellRef ref;
    std::size_t device_block = 0;
    std::int64_t copies = 0;
  };

  KvStore* store_;
  KvSequences* sequences_;
  WeightStore* weights_;
  int layers_;
  bool each_way_;
  std::optional<Random> drawn_; ///< where the order is a fault
  TransferOrder order_;

  std::vector<KvNeed> needs_; ///< by position
  std::size_t turn_ = 0;      ///< whose turn it is, under equal shares
  std::vector<WeightNeed> weight_needs_;
  std::size_t next_weight_ = 0;
  std::optional<WeightStore::Passage> passage_;
  bool passage_returns_ = false;
  bool passage_ahead_ = false; ///< begun in the iteration before the one that needs it
  int passage_position_ = 0;
  bool weights_in_flight_ = false;
  bool weights_failed_ = false;
  std::deque<CellRef> written_, evicted_, copies_;

  int computing_ = -1;
  int computed_ = 0;
  std::vector<std::int64_t> missing_, passing_, staying_; ///< by layer
  std::int64_t idle_ = 0;
  std::int64_t first_missing_ = 0; ///< awaited cells of needs that come first
  int waiting_layer_ = -1;         ///< what the computing thread sleeps for
  bool waiting_room_ = false;
  InFlight in_, out_;
  LinkSpan span_; ///< of the copy to the device that is under way
  std::vector<LinkSpan> spans_;
  int in_flight_ = 0;
  Way last_ = Way::to_host;
  std::uint64_t version_ = 1;
  std::uint64_t copies_begun_ = 0;
  std::array<std::uint64_t, 2> idle_at_{0, 0};
  bool halted_ = false;
};

} // namespace sluice
