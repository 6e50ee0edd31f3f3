// SPDX-License-Identifier: Apache-2.0
// TierLevel: one memory below an engine's device, with its channel; TierRequests: what requests want of it.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/state/memory/tier_store.hpp"

#include <cstdint>
#include <unordered_map>
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

  std::unordered_map<std::uint64_t, History> past; ///< of every block so far, if they explain misses
  std::vector<Wanted> wanted;                      ///< by requests that wait, if the policy looks ahead
  std::unordered_map<std::uint64_t, double> worth; ///< of each block of `wanted`, the largest
  bool shared = false;                             ///< by several engines
};

} // namespace sluice
