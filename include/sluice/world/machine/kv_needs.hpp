// SPDX-License-Identifier: Apache-2.0
// What must be on the device before a layer computes: KvNeeds, in the layers' order, and WeightPassages.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/block.hpp"
#include "sluice/world/machine/weight_store.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

// KvNeed, KvNeeds: what must be on the device before a layer computes, in the order in which it is fetched. LayerRoom:
// what each layer still waits for, and the device blocks that it still has to take.

/// KV or hidden states of one layer of one sequence that must be on the device before that layer computes: those of the
/// table's blocks `next` .. `end` - 1 that only the host has.
struct KvNeed {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;
  int layer = 0;           ///< as in a BlockRef: L more for hidden states
  int position = 0;        ///< the layer; L more for the next token's layer
  int previous = -1;       ///< position of the sequence's previous offloaded layer; -1: none
  bool first = false;      ///< before any other need, and before the first layer starts
  bool passing = true;     ///< for this iteration only; false: it stays
  bool idle = false;       ///< no layer of this iteration reads it
  std::int64_t copies = 0; ///< of KV that stays: how many of its oldest blocks keep their copy on the host
  std::int32_t next = 0;   ///< the first block that has not begun
  std::int32_t end = 0;
  std::int32_t waiting = -1; ///< the next need that waits for the same progress (KvNeeds)
  CopySince since{};         ///< when it was opened (KvNeeds)

  [[nodiscard]] bool done() const { return next >= end; }
  /// Covers these blocks too, and those between them and the blocks so far.
  void cover(const BlockRun& run) {
    if (done()) next = run.first;
    end = run.end();
  }
};

/// How far an iteration has come.
struct IterationProgress {
  int launched = 0;   ///< layers that the device has been given
  int computing = -1; ///< the layer that computes now
  int computed = 0;   ///< layers that have been computed, all before it included
};

/// An iteration's needs, first those that come before any other, then by position. A need is *open* from the moment at
/// which the transfer rule lets it start until it is done. Each need waits in a list for the one event that opens it,
/// and open needs are bits of a set: choosing the next copy costs the same for one request and for hundreds.
class KvNeeds {
 public:
  explicit KvNeeds(int layers) : layers_(layers) {
    for (std::vector<std::int32_t>& lists : waiting_) lists.resize(static_cast<std::size_t>(layers) + 1);
  }

  /// Takes the needs of an iteration, and returns the previous ones' memory. `firsts`: how many come before any other;
  /// the rest is in the order of its positions.
  void begin(std::vector<KvNeed>& needs, std::size_t firsts, TransferOrder::Start start, CopySince now) {
    needs_.swap(needs);
    firsts_ = firsts;
    start_ = start;
    open_.assign((needs_.size() + word_bits - 1) / word_bits, 0);
    lowest_ = open_.size();
    for (std::vector<std::int32_t>& lists : waiting_) std::fill(lists.begin(), lists.end(), -1);
    first_at_.assign(2 * static_cast<std::size_t>(layers_) + 1, needs_.size());
    at_ = {};
    for (std::size_t i = needs_.size(); i-- > 0;) {
      KvNeed& need = needs_[i];
      if (i >= firsts_) {
        SLUICE_ASSERT(i + 1 == needs_.size() || need.position <= needs_[i + 1].position, "in the order of positions");
        first_at_[static_cast<std::size_t>(need.position)] = i;
      }
      if (!need.done()) file(i, now);
    }
    for (std::size_t position = first_at_.size() - 1; position-- > 0;)
      first_at_[position] = std::min(first_at_[position], first_at_[position + 1]);
  }
  void forget() {
    needs_.clear();
    open_.clear();
    firsts_ = lowest_ = 0;
    for (std::vector<std::int32_t>& lists : waiting_) std::fill(lists.begin(), lists.end(), -1);
  }
  /// Opens what waited for this.
  void reach(const IterationProgress& at, CopySince now) {
    wake(Awaits::launch, at_.launched, at.launched, now);
    wake(Awaits::computing, at_.computing + 1, at.computing + 1, now);
    wake(Awaits::computed, at_.computed, at.computed, now);
  }

  [[nodiscard]] KvNeed& operator[](std::size_t i) { return needs_[i]; }
  [[nodiscard]] std::size_t size() const { return needs_.size(); }
  /// How many come before any other.
  [[nodiscard]] std::size_t firsts() const { return firsts_; }
  /// The first need of a position or of a later one, those that come before any other left out.
  [[nodiscard]] std::size_t first_at(int position) const { return first_at_[static_cast<std::size_t>(position)]; }
  /// The first open need from `i` on; `size()` if there is none.
  [[nodiscard]] std::size_t open_from(std::size_t i) {
    while (lowest_ < open_.size() && open_[lowest_] == 0) ++lowest_;
    std::size_t word = std::max(i / word_bits, lowest_);
    if (word >= open_.size()) return needs_.size();
    std::uint64_t bits = open_[word];
    if (word == i / word_bits) bits &= ~std::uint64_t{0} << (i % word_bits);
    while (bits == 0) {
      if (++word == open_.size()) return needs_.size();
      bits = open_[word];
    }
    return word * word_bits + static_cast<std::size_t>(std::countr_zero(bits));
  }
  /// The need has nothing left to fetch.
  void close(std::size_t i) { open_[i / word_bits] &= ~(std::uint64_t{1} << (i % word_bits)); }

 private:
  enum class Awaits : std::uint8_t { launch, computing, computed };
  static constexpr std::size_t word_bits = 64;

  /// Opens the need, or lets it wait for the next event without which it cannot start.
  void file(std::size_t i, CopySince now) {
    KvNeed& need = needs_[i];
    if (!need.first) {
      // The current token still uses its blocks.
      if (need.position >= layers_ && !await(i, Awaits::launch, need.position - layers_ + 1, at_.launched)) return;
      if (start_ == TransferOrder::Start::previous_layer_starts && need.position > 0 &&
          !await(i, Awaits::computing, need.position, at_.computing + 1))
        return;
      if (start_ == TransferOrder::Start::previous_own_layer_ends && need.previous >= 0 &&
          !await(i, Awaits::computed, need.previous + 1, at_.computed))
        return;
    }
    need.since = now;
    open_[i / word_bits] |= std::uint64_t{1} << (i % word_bits);
    lowest_ = std::min(lowest_, i / word_bits);
  }
  /// Whether `reached` is `value` or more; otherwise the need waits for it, or is never opened in this iteration.
  bool await(std::size_t i, Awaits what, int value, int reached) {
    if (reached >= value) return true;
    if (value <= layers_) {
      std::int32_t& list = waiting_[static_cast<std::size_t>(what)][static_cast<std::size_t>(value)];
      needs_[i].waiting = list;
      list = static_cast<std::int32_t>(i);
    }
    return false;
  }
  void wake(Awaits what, int from, int to, CopySince now) {
    if (to <= from) return;
    switch (what) {
    case Awaits::launch:
      at_.launched = to;
      break;
    case Awaits::computing:
      at_.computing = to - 1;
      break;
    case Awaits::computed:
      at_.computed = to;
      break;
    }
    for (int value = from + 1; value <= to; ++value) {
      std::int32_t& list = waiting_[static_cast<std::size_t>(what)][static_cast<std::size_t>(value)];
      for (std::int32_t i = list, next = -1; i >= 0; i = next) {
        next = needs_[static_cast<std::size_t>(i)].waiting;
        file(static_cast<std::size_t>(i), now);
      }
      list = -1;
    }
  }

  int layers_;
  TransferOrder::Start start_ = TransferOrder::Start::room;
  std::vector<KvNeed> needs_;
  std::size_t firsts_ = 0;
  std::vector<std::size_t> first_at_;                ///< by position
  std::vector<std::uint64_t> open_;                  ///< a bit per need
  std::size_t lowest_ = 0;                           ///< no word before it has a bit
  std::array<std::vector<std::int32_t>, 3> waiting_; ///< by what is awaited and its value: the first need of a list
  IterationProgress at_;
};

/// Counts by layer. A KV block that is made or fetched is reserved for its layer until it has been taken, so that no
/// transfer for a later layer takes an earlier layer's room.
class LayerRoom {
 public:
  explicit LayerRoom(int layers)
      : missing_(static_cast<std::size_t>(layers)),
        passing_(static_cast<std::size_t>(layers)),
        staying_(static_cast<std::size_t>(layers)) {}

  /// Blocks of a layer that must arrive before it computes.
  std::int64_t& missing(int layer) { return missing_[static_cast<std::size_t>(layer)]; }
  /// Device blocks that a layer still has to take: while it computes (`passing`), or for good.
  std::int64_t& reserved(int layer, bool passing) {
    return (passing ? passing_ : staying_)[static_cast<std::size_t>(layer)];
  }
  /// The same for blocks that no layer waits for.
  std::int64_t& reserved_idle() { return idle_; }
  /// Blocks that must arrive before the first layer.
  std::int64_t& first_missing() { return first_missing_; }

  /// Whether the layer's KV is on the device, and for the first layer everything that comes first.
  [[nodiscard]] bool arrived(int layer) const {
    return missing_[static_cast<std::size_t>(layer)] == 0 && (layer > 0 || first_missing_ == 0);
  }
  /// The blocks have arrived, or are no longer needed.
  void no_longer_awaited(BlockRun& run, int layer) {
    if (run.awaited) missing_[static_cast<std::size_t>(layer)] -= run.count;
    if (run.sooner) first_missing_ -= run.count;
    run.awaited = run.sooner = false;
  }
  void forget() {
    std::fill(missing_.begin(), missing_.end(), 0);
    std::fill(passing_.begin(), passing_.end(), 0);
    std::fill(staying_.begin(), staying_.end(), 0);
    first_missing_ = idle_ = 0;
  }

  /// Free blocks that must remain when a block for `position` is taken: each layer from `launched` on needs the blocks
  /// that it takes while it computes, and those that stay by then, in addition to `weights`.
  [[nodiscard]] std::int64_t needed_before(int position, int launched, std::int64_t weights) const {
    const int layers = static_cast<int>(missing_.size());
    std::int64_t needed = weights;
    std::int64_t staying = needed;
    for (int layer = launched; layer < std::min(position, layers); ++layer) {
      staying += staying_[static_cast<std::size_t>(layer)];
      needed = std::max(needed, staying + passing_[static_cast<std::size_t>(layer)]);
    }
    return position < layers ? needed : std::max(needed, staying + idle_);
  }
  /// The same for a block that no layer of this iteration reads.
  [[nodiscard]] std::int64_t needed_before_idle(int launched, std::int64_t weights) const {
    const int last = static_cast<int>(missing_.size()) - 1;
    return std::max(needed_before(last, launched, weights), weights + staying_.back() + passing_.back());
  }

 private:
  std::vector<std::int64_t> missing_, passing_, staying_; // by layer
  std::int64_t idle_ = 0;
  std::int64_t first_missing_ = 0;
};

// WeightNeed, WeightPassages: which piece of which layer's weights crosses the link next.

/// A layer's weights that must arrive before it computes.
struct WeightNeed {
  int position = 0;
  bool returns = false; ///< for good; otherwise through a slot
  CopySince since{};    ///< when it was opened (WeightPassages)
};

/// Weights on their way to the device: one passage at a time, in pieces, several of which may be under way. A need is
/// open once the transfer rule lets it start and there is a slot for it. Not synchronised.
class WeightPassages {
 public:
  /// A piece under way.
  struct Piece {
    std::uint64_t passage = 0; ///< the number of its passage
    int layer = 0;
    int position = 0;  ///< as in its need
    bool last = false; ///< of its passage
    bool returns = false;
    bool ahead = false; ///< begun in the iteration before the one that needs it
  };
  WeightPassages(WeightStore& weights, int layers) : weights_(&weights), layers_(layers) {}

  /// An iteration begins with these needs. Needs of the previous iteration that have not begun are forgotten; its
  /// prefetched passage is for this one.
  void begin(std::vector<WeightNeed>& needs) {
    needs_.swap(needs);
    next_need_ = opened_ = 0;
    if (passage_ && passage_->piece.position >= layers_) passage_->piece.position -= layers_;
  }
  void forget() {
    needs_.clear();
    next_need_ = opened_ = 0;
  }
  /// Opens what may start by now. Call it after each progress of the layers, and after each end of a piece.
  void open(const IterationProgress& at, TransferOrder::Start start, CopySince now) {
    for (; opened_ < needs_.size(); ++opened_) {
      WeightNeed& need = needs_[opened_];
      if (need.position >= layers_ && at.launched <= need.position - layers_) return;
      if (start == TransferOrder::Start::previous_layer_starts && at.computing < need.position - 1) return;
      const auto with_slots = std::count_if(begin_of(next_need_), begin_of(opened_), streams);
      if (streams(need) && with_slots >= weights_->free_slots()) return;
      if (need.since == CopySince{}) need.since = now; // not again after a failure
    }
  }
  /// The piece under way was begun in the previous iteration.
  void turn(Piece& piece) const {
    if (piece.position >= layers_) piece.position -= layers_;
  }

  /// Returns the next piece, and describes it in `piece`. Weights come before KV that is needed no earlier than the end
  /// of their layer, and after KV of their own layer: `kv_position` is where KV is needed next.
  std::optional<PlacedCopy> next(int kv_position, Piece& piece) {
    if (!passage_) {
      if (next_need_ == opened_) return std::nullopt;
      const WeightNeed& need = needs_[next_need_];
      if (kv_position <= need.position) return std::nullopt;
      const int layer = need.position % layers_;
      const std::optional<WeightStore::Passage> begun =
          need.returns ? weights_->begin_return(layer) : weights_->begin_stream(layer);
      if (!begun) return std::nullopt;
      passage_ =
          Under{*begun, {++passages_, layer, need.position, false, need.returns, need.position >= layers_}, need.since};
      ++next_need_;
    } else if (kv_position < passage_->piece.position) {
      return std::nullopt;
    }
    ++in_flight_;
    PlacedCopy copy = weights_->next_piece(passage_->passage);
    copy.since = passage_->since;
    passage_->piece.last = passage_->passage.done();
    piece = passage_->piece;
    if (piece.last) passage_.reset();
    return copy;
  }
  /// A piece has arrived or failed for good: blocks change hands. A failed passage leaves nothing behind. If it was
  /// prefetched, the iteration that needs it requests it once more; any other failure fails the requests that compute
  /// with the weights.
  void complete(const Piece& piece, bool did_fail) {
    if (piece.passage <= dropped_) return;
    if (did_fail) {
      dropped_ = piece.passage;
      if (!piece.returns) weights_->computed(piece.layer);
      if (!piece.ahead) {
        failed_ = true;
      } else if (piece.position < layers_) {
        needs_.insert(begin_of(next_need_), {piece.position, piece.returns});
        opened_ = next_need_;
      }
      if (passage_ && passage_->piece.passage == piece.passage) passage_.reset();
      return;
    }
    if (!piece.last) return;
    if (piece.returns)
      weights_->returned(piece.layer);
    else
      weights_->streamed(piece.layer);
  }
  /// The link has finished with a piece.
  void ended(const Piece& piece) {
    SLUICE_ASSERT(in_flight_ > 0, "a piece that was begun");
    --in_flight_;
    if (piece.last && piece.returns && piece.passage > dropped_) weights_->left_alone(piece.layer);
  }

  /// No piece begins from now on; those under way belong to no passage.
  void halt() {
    forget();
    passage_.reset();
    dropped_ = passages_;
  }
  [[nodiscard]] bool any_in_flight() const { return in_flight_ > 0; }
  [[nodiscard]] bool at_rest() const { return in_flight_ == 0 && !passage_ && needs_.empty(); }

  /// Whether a transfer of a layer's weights has failed twice since `forgive`.
  [[nodiscard]] bool failed() const { return failed_; }
  void forgive() { failed_ = false; }

 private:
  struct Under {
    WeightStore::Passage passage;
    Piece piece;
    CopySince since; ///< of its need
  };

  static bool streams(const WeightNeed& need) { return !need.returns; }
  std::vector<WeightNeed>::iterator begin_of(std::size_t i) { return needs_.begin() + static_cast<std::ptrdiff_t>(i); }

  WeightStore* weights_;
  int layers_;
  std::vector<WeightNeed> needs_;
  std::size_t next_need_ = 0;    ///< the first that has not begun
  std::size_t opened_ = 0;       ///< the first that is not open
  std::optional<Under> passage_; ///< whose pieces begin now
  std::uint64_t passages_ = 0, dropped_ = 0;
  int in_flight_ = 0;
  bool failed_ = false;
};

} // namespace sluice
