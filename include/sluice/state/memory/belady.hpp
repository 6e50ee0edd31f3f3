// SPDX-License-Identifier: Apache-2.0
// belady_hits: the most block hits that any tier of a size can have for known requests.
#pragma once

#include "sluice/state/memory/tier_store.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

namespace sluice {

/// A request's blocks, and how many of them, from the first on, it looks up: the last token is always computed, so its
/// block is not.
struct PrefixUse {
  std::span<const BlockKey> keys;
  std::size_t looked_up = 0;
};

/// The block hits of Belady's rule on the leaves of the prefix tree (MIN): the leaf that is looked up next the latest
/// leaves, or the new block itself if it is that one. No tier of `capacity` blocks that keeps whole prefixes has more
/// hits for these requests, one after the other (tests/state/memory/belady_test.cpp compares it with all possible
/// evictions).
///
/// Takes O(blocks log capacity).
inline std::int64_t belady_hits(std::span<const PrefixUse> requests, TokenBlocks capacity) {
  // For each block of each request: the next request that looks it up. A use that does not look it up finds nothing.
  std::vector<std::size_t> begin(requests.size() + 1);
  for (std::size_t i = 0; i < requests.size(); ++i) begin[i + 1] = begin[i] + requests[i].keys.size();
  constexpr auto never = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> next(begin.back());
  std::unordered_map<std::uint64_t, std::uint32_t> coming;
  for (std::size_t i = requests.size(); i-- > 0;)
    for (std::size_t at = 0; at < requests[i].keys.size(); ++at) {
      const auto key = static_cast<std::uint64_t>(requests[i].keys[at]);
      const auto use = coming.find(key);
      next[begin[i] + at] = use == coming.end() ? never : use->second;
      if (at < requests[i].looked_up) coming[key] = static_cast<std::uint32_t>(i);
    }
  TierStore store(capacity, Replacement::least_worth);
  std::int64_t hits = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    hits += static_cast<std::int64_t>(store.find(requests[i].keys.first(requests[i].looked_up)));
    store.store(requests[i].keys, TierStore::Forget{},
                [&](std::size_t at) { return -static_cast<double>(next[begin[i] + at]); });
  }
  return hits;
}

} // namespace sluice
