// SPDX-License-Identifier: Apache-2.0
// Tier: a memory below the device, as data.
#pragma once

#include "sluice/core/units.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace sluice {

/// Which blocks leave a full tier first.
enum class Replacement : std::uint8_t {
  least_recent,   ///< LRU
  least_frequent, ///< LFU: the least used block; among equals the least recent. Evicted blocks' uses are forgotten
  adaptive,       ///< ARC (Megiddo and Modha, FAST 2003), as vLLM's offloading manager has it
  least_worth, ///< the leaf of the prefix tree with the lowest worth that a caller gives; among equals the least recent
};

constexpr std::string_view name(Replacement replacement) {
  constexpr std::string_view names[] = {"LRU", "LFU", "ARC", "worth"};
  return names[static_cast<std::size_t>(replacement)];
}

/// A memory for KV that outlives its request. The first tier of an engine is on the other side of the device's link
/// (host memory, or a pool of other hosts' memory); each further one (an SSD, a pool) is reached through the first.
///
/// The rates are those of the tier's own channel, one for each direction, which serves one transfer after another. The
/// first tier's blocks cross the device's link as well: host memory needs no channel of its own, so its rates stay
/// infinite.
struct Tier {
  TokenBlocks capacity{0};
  Replacement replacement = Replacement::least_recent;
  BytesPerSecond read_rate{std::numeric_limits<double>::infinity()};
  BytesPerSecond write_rate{std::numeric_limits<double>::infinity()};
  Seconds latency{0}; ///< of a read, before its first byte

  friend constexpr bool operator==(const Tier&, const Tier&) = default;
};

} // namespace sluice
