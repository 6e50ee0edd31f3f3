// SPDX-License-Identifier: Apache-2.0
// WeightNeed, WeightPassages: which piece of which layer's weights crosses the link next.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/world/link/copy.hpp"
#include "sluice/world/machine/kv_needs.hpp"
#include "sluice/world/machine/weight_store.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

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
