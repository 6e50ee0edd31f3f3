// SPDX-License-Identifier: Apache-2.0
// LayerRoom: what each layer of an iteration still waits for, and the device blocks that it still has to take.
#pragma once

#include "sluice/world/machine/block.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

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
  /// The block has arrived, or is no longer needed.
  void no_longer_awaited(KvBlock& entry, int layer) {
    if (entry.awaited) --missing_[static_cast<std::size_t>(layer)];
    if (entry.first) --first_missing_;
    entry.awaited = entry.first = false;
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

} // namespace sluice
