// SPDX-License-Identifier: Apache-2.0
// HostTier: the tier below an engine's device: which blocks it has, and which are on their way to it.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/memory/tier_store.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// Blocks that are written cross the link in the order in which they were offered, behind everything else; a block can
/// be found when it has crossed. The tier takes room for it then, and evicts others. Counted in token blocks; the link
/// counts layer blocks and may have crossed a part of one.
///
/// Engines whose Caching policy says `caches = false` have an empty one and never call it.
class HostTier {
 public:
  Seconds run_until{0};      ///< end of the last iteration: the link is idle since
  LayerBlocks moved_idle{0}; ///< launched since then, for the next iteration's account

  HostTier() = default;
  explicit HostTier(const Tier& tier) : store_(tier.capacity, tier.replacement) {}

  [[nodiscard]] const TierStore& store() const { return store_; }
  /// How many of `keys`, from the first on, can be loaded now.
  [[nodiscard]] std::size_t find(std::span<const BlockKey> keys) const { return store_.find(keys); }
  void touch(std::span<const BlockKey> keys) { store_.touch(keys); }
  /// Offers a request's blocks `keys`, from its first one on, of which the first `before` were offered before: those
  /// behind them are written, except for blocks that the tier has or that are on their way. If the tier has lost a
  /// block that was offered before, nothing is written: what follows it could never be found.
  void write(std::span<const BlockKey> keys, std::size_t before, double worth) {
    std::size_t known = store_.find(keys);
    for (const Write& other : waiting_) known = std::max(known, common(keys, other.keys));
    if (known < before) return;
    for (std::size_t i = known; i < keys.size(); ++i) offered_ += store_.holds(keys[i]) ? 0 : 1;
    waiting_.push_back({{keys.begin(), keys.end()}, known, worth, offered_});
    crossed(static_cast<double>(launched_) - crossed_); // if nothing moves, they are only used once more
  }
  /// How many blocks were offered since the last call; they are on the link from now on.
  [[nodiscard]] std::int64_t launch() { return offered_ - std::exchange(launched_, offered_); }
  /// All blocks that were launched have crossed, except for the last `left`.
  void crossed(double left) {
    crossed_ = static_cast<double>(launched_) - left;
    std::size_t arrived = 0;
    // A block has crossed if all but a millionth has: the link's time is a sum of doubles.
    for (; arrived < waiting_.size() && static_cast<double>(waiting_[arrived].end) <= crossed_ + 1e-6; ++arrived) {
      const Write& write = waiting_[arrived];
      if (store_.find(std::span(write.keys).first(write.known)) < write.known) continue; // evicted meanwhile
      store_.store(write.keys, TierStore::Forget{}, [&write](std::size_t) { return write.worth; });
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(arrived));
  }
  /// Blocks that were launched and have not crossed.
  [[nodiscard]] double on_link() const { return static_cast<double>(launched_) - crossed_; }

 private:
  struct Write {
    std::vector<BlockKey> keys; ///< of the request, from its first block on
    std::size_t known = 0;      ///< of them, those that others have written
    double worth = 0;
    std::int64_t end = 0; ///< blocks offered up to its last
  };
  /// How many keys two requests have in common: a key says all before it, so equality ends once.
  static std::size_t common(std::span<const BlockKey> a, std::span<const BlockKey> b) {
    std::size_t low = 0, high = std::min(a.size(), b.size());
    while (low < high) {
      const std::size_t middle = (low + high + 1) / 2;
      (a[middle - 1] == b[middle - 1] ? low : high) = a[middle - 1] == b[middle - 1] ? middle : middle - 1;
    }
    return low;
  }

  TierStore store_;
  std::vector<Write> waiting_; ///< in the order of their offers
  std::int64_t offered_ = 0, launched_ = 0;
  double crossed_ = 0; ///< blocks
};

} // namespace sluice
