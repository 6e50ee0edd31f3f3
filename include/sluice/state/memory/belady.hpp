// SPDX-License-Identifier: Apache-2.0
// Hits without time: belady_hits, the most that memories of a size can have, and UntimedTiers, those of the tiers.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/memory/tier_store.hpp"
#include "sluice/workload/content.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <queue>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

// belady_hits: the most block hits that memories of a size can have for known requests.

/// A request's blocks, and how many of them, from the first on, it looks up: the last token is always computed, so its
/// block is not.
struct PrefixUse {
  std::span<const BlockKey> keys;
  std::size_t looked_up = 0;
};

/// When a request looks up its blocks, and when it ends. Meanwhile it has all of them.
struct Lifetime {
  Seconds begin{0}, end{0};
};

/// The most hits for these requests: `capacity` blocks can be kept that no live request has, and a live request's
/// blocks need no room. Without `lives` the requests come one after the other, each instantaneous; otherwise they are
/// in the order of their beginnings. A block that a live request has is a hit for others: in time, a block can be
/// found only later, when it is computed, so no run finds more (docs/tiers.md).
///
/// This is Belady's rule (MIN). When its last holder ends, a block must be kept until the next look-up; otherwise that
/// look-up misses. Of more blocks than there is room for, the one whose next look-up is the latest
/// leaves, which leaves the most intervals whole (Faigle and Nawijn, 1995). It need not look at the prefix tree: a
/// block's interval contains that of the block before it, so a choice that keeps only whole prefixes is as good
/// (tests/state/memory/belady_test.cpp compares with all possible choices).
///
/// Takes O(blocks + requests log requests).
inline std::int64_t belady_hits(std::span<const PrefixUse> requests, TokenBlocks capacity,
                                std::span<const Lifetime> lives = {}) {
  SLUICE_ASSERT(lives.empty() || lives.size() == requests.size(), "a lifetime per request");
  constexpr auto never = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::size_t> first(requests.size() + 1); // of each request's blocks, in `block` and `next`
  for (std::size_t i = 0; i < requests.size(); ++i) first[i + 1] = first[i] + requests[i].keys.size();

  std::vector<std::uint32_t> block(first.back()), next(first.back());
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  for (std::size_t i = 0, at = 0; i < requests.size(); ++i)
    for (const BlockKey key : requests[i].keys)
      block[at++] = numbers.try_emplace(static_cast<std::uint64_t>(key), static_cast<std::uint32_t>(numbers.size()))
                        .first->second;
  // The next request that has a block, if it looks it up: otherwise it computes the block again.
  std::vector<std::uint32_t> coming(numbers.size(), never);
  for (std::size_t i = requests.size(); i-- > 0;)
    for (std::size_t k = 0; k < requests[i].keys.size(); ++k) {
      std::uint32_t& of = coming[block[first[i] + k]];
      next[first[i] + k] = of;
      of = k < requests[i].looked_up ? static_cast<std::uint32_t>(i) : never;
    }

  std::vector<std::int32_t> holders(numbers.size());
  std::vector<std::uint32_t>& wanted = coming;     // from now on: by whom, after the newest request that has the block
  std::vector<std::int64_t> kept(requests.size()); // blocks, by the request that looks them up next
  std::priority_queue<std::uint32_t> latest;       // requests for which blocks are kept, or were
  std::int64_t all_kept = 0, hits = 0;
  const auto begin = [&](std::size_t i) {
    hits += kept[i];
    all_kept -= kept[i];
    kept[i] = 0;
    for (std::size_t k = 0; k < requests[i].keys.size(); ++k) {
      const std::uint32_t of = block[first[i] + k];
      hits += k < requests[i].looked_up && holders[of] > 0 ? 1 : 0;
      ++holders[of];
      wanted[of] = next[first[i] + k];
    }
  };
  const auto end = [&](std::size_t i) {
    for (std::size_t at = first[i]; at < first[i + 1]; ++at) {
      const std::uint32_t by = wanted[block[at]];
      if (--holders[block[at]] > 0 || by == never) continue;
      if (kept[by]++ == 0) latest.push(by);
      ++all_kept;
    }
    while (all_kept > capacity.count()) {
      while (kept[latest.top()] == 0) latest.pop();
      --kept[latest.top()];
      --all_kept;
    }
  };
  std::vector<std::size_t> ends(lives.size());
  std::iota(ends.begin(), ends.end(), std::size_t{0});
  std::stable_sort(ends.begin(), ends.end(), [&](std::size_t a, std::size_t b) { return lives[a].end < lives[b].end; });
  std::size_t ended = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!lives.empty()) {
      SLUICE_ASSERT(i == 0 || lives[i - 1].begin <= lives[i].begin, "requests in the order of their beginnings");
      while (ended < ends.size() && lives[ends[ended]].end < lives[i].begin) end(ends[ended++]);
    }
    begin(i);
    if (lives.empty()) end(i);
  }
  return hits;
}

// UntimedTiers: device and host, one request after the other, each instantaneous: hit shares without an engine.

/// Which blocks the host has copies of.
enum class HostCopies : std::uint8_t {
  inclusive,  ///< every block, as soon as it is computed (write-through)
  write_back, ///< blocks that the device evicts; a loaded block keeps its copy
  exclusive,  ///< blocks that the device evicts; a loaded block leaves the host
};

constexpr std::string_view name(HostCopies copies) {
  constexpr std::string_view names[] = {"inclusive", "write-back", "exclusive"};
  return names[static_cast<std::size_t>(copies)];
}

/// Counts what two LRU tiers find and write. An upper reference for runs in time, where a block can also be late, and a
/// quick way to size a host.
class UntimedTiers {
 public:
  UntimedTiers(TokenBlocks device, TokenBlocks host, HostCopies copies)
      : device_(device, Replacement::least_recent), host_(host, Replacement::least_recent), copies_(copies) {}

  /// A request with these blocks; it looks up the first `looked_up` of them.
  void serve(std::span<const BlockKey> keys, std::size_t looked_up) {
    const std::size_t on_device = device_.find(keys.first(looked_up));
    std::size_t found = on_device;
    while (found < looked_up && (host_.holds(keys[found]) || device_.holds(keys[found]))) ++found;
    looked_up_ += static_cast<std::int64_t>(looked_up);
    device_hits_ += static_cast<std::int64_t>(on_device);
    host_hits_ += static_cast<std::int64_t>(found - on_device);
    if (copies_ == HostCopies::inclusive) written_ += static_cast<std::int64_t>(host_.store(keys));
    if (copies_ == HostCopies::write_back) host_.touch(keys);
    if (copies_ == HostCopies::exclusive) host_.remove(keys.subspan(on_device, found - on_device));
    device_.store(keys, [this](BlockKey key) {
      if (copies_ != HostCopies::inclusive) written_ += host_.store_one(key, copies_ == HostCopies::exclusive) ? 1 : 0;
    });
  }

  [[nodiscard]] std::int64_t looked_up() const { return looked_up_; }     ///< blocks
  [[nodiscard]] std::int64_t device_hits() const { return device_hits_; } ///< blocks
  [[nodiscard]] std::int64_t host_hits() const { return host_hits_; }     ///< blocks, beyond the device's
  [[nodiscard]] std::int64_t written() const { return written_; }         ///< blocks, to the host

 private:
  TierStore device_, host_;
  HostCopies copies_;
  std::int64_t looked_up_ = 0, device_hits_ = 0, host_hits_ = 0, written_ = 0;
};

} // namespace sluice
