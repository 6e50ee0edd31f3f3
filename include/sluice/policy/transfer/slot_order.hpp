// SPDX-License-Identifier: Apache-2.0
// SlotOrder: the order in which streamed weights pass through their slots, and when each layer may start.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::detail {

/// The streamed layers of this token and the next as one sequence: 0 .. K-1 are this token's, K .. 2K-1 the next one's.
/// All rules ask this class what the slots allow, so they differ only in which transfer gets the link.
class SlotOrder {
 public:
  explicit SlotOrder(const WeightStream& weights) : slots_(std::min(weights.slots, weights.layers.count())) {
    SLUICE_ASSERT(weights.empty() || weights.slots >= 1, "streamed weights need a slot");
    weights.layers.for_each([this](int layer) { order_[static_cast<std::size_t>(count_++)] = layer; });
  }

  [[nodiscard]] int count() const { return count_; }
  /// How many of the sequence may have started once `computed` layers of this token have been computed: the slots were
  /// free before the token, and each computed layer frees one. 0 if nothing is streamed.
  [[nodiscard]] int released(int computed) const { return slots_ + computed; }
  [[nodiscard]] int layer(int i) const { return order_[static_cast<std::size_t>(i < count_ ? i : i - count_)]; }
  /// The layer of element i, counted on into the next token, for a model of `layers`.
  [[nodiscard]] std::size_t position(int i, std::size_t layers) const {
    return static_cast<std::size_t>(layer(i)) + (i < count_ ? 0 : layers);
  }
  /// The layer of this token whose end frees the slot of element i, or -1 if the slot was free before this token.
  [[nodiscard]] int waits_for(int i) const { return i < slots_ ? -1 : layer(i - slots_); }

 private:
  int slots_;
  int count_ = 0;
  std::array<int, max_layers> order_; ///< the first `count_` are set
};

} // namespace sluice::detail
