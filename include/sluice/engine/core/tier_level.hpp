// SPDX-License-Identifier: Apache-2.0
// TierLevel: one memory below an engine's device, with its channel; TierRequests: what requests want of it.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/memory/tier_store.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// One tier's blocks and its channel, which serves one transfer after another in each direction.
struct TierLevel {
  /// Blocks that arrive at `end`.
  struct Coming {
    Seconds end{0};
    std::vector<BlockKey> keys;
    BlockKey previous{}; ///< the request's block before them, if they are not its first
    double worth = 0;
    bool evicted = false; ///< from the memory above: in the order of their evictions
  };

  Tier facts;
  TierStore store;
  Seconds reads_until{0}, writes_until{0};
  std::vector<Coming> coming;                ///< in the order of their ends
  std::int64_t written = 0, read_blocks = 0; ///< blocks that have used the channel, or will
};

/// What the tiers know of requests.
struct TierRequests {
  /// What has happened to a block so far; the larger value counts.
  enum class Past : std::uint8_t { none, computed, arrived };
  struct History {
    std::int32_t computing = 0; ///< live requests that have it in their prompts
    Past latest = Past::none;
  };
  struct Wanted {
    std::uint64_t by = 0;
    std::vector<BlockKey> keys; ///< from its first block on
    double worth = 0;
  };

  /// What a block is worth to the requests that wait.
  [[nodiscard]] double wanted_worth(BlockKey key) const {
    if (worth.empty()) return 0;
    const auto known = worth.find(static_cast<std::uint64_t>(key));
    return known == worth.end() ? 0 : known->second;
  }
  /// A request that waits, or a session that is expected, wants these blocks.
  void want(std::uint64_t of, std::span<const BlockKey> keys, double most) {
    wanted.push_back({of, {keys.begin(), keys.end()}, most});
    for (const BlockKey key : keys) {
      double& known = worth.try_emplace(static_cast<std::uint64_t>(key), most).first->second;
      known = std::max(known, most);
    }
  }
  /// It wants them no longer. Returns them.
  std::vector<BlockKey> forget(std::uint64_t of) {
    const auto one = std::find_if(wanted.begin(), wanted.end(), [of](const Wanted& by) { return by.by == of; });
    if (one == wanted.end()) return {};
    std::vector<BlockKey> keys = std::move(one->keys);
    wanted.erase(one);
    // Of the others that have block i, the largest worth: they have all blocks before it, too.
    std::vector<double> most(keys.size() + 1, -1);
    for (const Wanted& other : wanted) {
      double& last = most[common(keys, other.keys)];
      last = std::max(last, other.worth);
    }
    for (std::size_t i = keys.size(); i-- > 0;) {
      const auto key = static_cast<std::uint64_t>(keys[i]);
      if (most[i + 1] < 0)
        worth.erase(key);
      else
        worth[key] = most[i + 1];
      most[i] = std::max(most[i], most[i + 1]);
    }
    return keys;
  }
  /// How many keys two requests have in common: a key says all before it, so equality ends once.
  static std::size_t common(std::span<const BlockKey> a, std::span<const BlockKey> b) {
    std::size_t low = 0, high = std::min(a.size(), b.size());
    while (low < high) {
      const std::size_t middle = (low + high + 1) / 2;
      (a[middle - 1] == b[middle - 1] ? low : high) = a[middle - 1] == b[middle - 1] ? middle : middle - 1;
    }
    return low;
  }

  std::unordered_map<std::uint64_t, History> past; ///< of every block so far, if they explain misses
  std::vector<Wanted> wanted;                      ///< by requests that wait, if the policy looks ahead
  std::unordered_map<std::uint64_t, double> worth; ///< of each block of `wanted`, the largest
  bool shared = false;                             ///< by several engines
};

} // namespace sluice
