// SPDX-License-Identifier: Apache-2.0
// HostTier: KV of ended requests that stays on the host, where later requests with the same beginning find it.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/records/record.hpp"
#include "sluice/world/host_tier/host_tier_counts.hpp"
#include "sluice/world/machine/kv_store.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// Writes the keys of the full blocks of `tokens`. A block's key covers its tokens and all before them, and `salt`:
/// requests with other salts find none of each other's blocks. Two chains of 64 bits with different constants
/// (splitmix64's finaliser), so that no two blocks share a key by chance.
inline void prefix_keys(std::span<const std::int32_t> tokens, std::int64_t block_tokens, std::uint64_t salt,
                        std::vector<RecordKey>& keys) {
  const auto mix = [](std::uint64_t before, std::uint64_t value, std::uint64_t odd) {
    std::uint64_t z = (before ^ value) * odd + 0x632be59bd9b4e019U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  };
  constexpr std::uint64_t one = 0x9e3779b97f4a7c15U, other = 0xd1342543de82ef95U;
  keys.clear();
  RecordKey key{mix(0, salt, one), mix(1, salt, other)};
  const auto each = static_cast<std::size_t>(block_tokens);
  for (std::size_t at = 0; at + each <= tokens.size(); at += each) {
    for (const std::int32_t token : tokens.subspan(at, each))
      key = {mix(key.high, static_cast<std::uint32_t>(token), one),
             mix(key.low, static_cast<std::uint32_t>(token), other)};
    keys.push_back(key);
  }
}

/// Token blocks by key; each is a host block per layer. The blocks are full, so nothing ever writes to them, and a
/// request that finds one shares it with the tier and with other requests (KvStore counts the holders): there is no
/// copy on write, because there are no writes. The least recently used block that no waiting request is to read is
/// evicted; a request's last block is the least recent of its blocks, so that prefixes lose their ends first.
///
/// Only numbers of blocks, as everywhere in a machine. Not synchronised: the schedule's mutex guards it.
class HostTier {
 public:
  /// `room`: layer blocks that the host has for the tier, besides those that plans place there.
  HostTier(KvStore& store, int layers, LayerBlocks room) : store_(&store), layers_(layers) {
    counts_.capacity = room.count() / layers;
    counts_.block_bytes = store.shape().bytes().count() * layers;
    tell_idle();
  }

  [[nodiscard]] bool exists() const { return counts_.capacity > 0; }
  [[nodiscard]] HostTierCounts& counts() { return counts_; }
  [[nodiscard]] const HostTierCounts& counts() const { return counts_; }

  [[nodiscard]] bool holds(const RecordKey& key) const { return index_.contains(key); }
  /// How many of `keys`, from the first on, the tier has.
  [[nodiscard]] std::size_t find(std::span<const RecordKey> keys) const {
    std::size_t found = 0;
    while (found < keys.size() && holds(keys[found])) ++found;
    return found;
  }
  /// The host block of each layer.
  [[nodiscard]] std::span<const std::int32_t> blocks(const RecordKey& key) const { return index_.at(key)->host; }
  /// These blocks are used now.
  void touch(std::span<const RecordKey> keys) {
    for (std::size_t i = keys.size(); i-- > 0;) entries_.splice(entries_.end(), entries_, index_.at(keys[i]));
  }
  /// Pinned blocks are not evicted. Pins are counted.
  void pin(std::span<const RecordKey> keys) {
    for (const RecordKey& key : keys) ++index_.at(key)->pins;
  }
  void unpin(std::span<const RecordKey> keys) {
    for (const RecordKey& key : keys) --index_.at(key)->pins;
  }

  /// Sets room aside for up to `blocks` token blocks, and evicts others for it. Returns for how many.
  [[nodiscard]] std::int64_t reserve(std::int64_t blocks) {
    const std::int64_t taken = counts_.blocks + reserved_;
    for (std::int64_t missing = taken + blocks - counts_.capacity; missing > 0 && evict_one();) --missing;
    const std::int64_t got = std::clamp<std::int64_t>(counts_.capacity - counts_.blocks - reserved_, 0, blocks);
    reserved_ += got;
    return got;
  }
  void give_back(std::int64_t reserved) { reserved_ -= reserved; }
  /// Adds a block for which room is reserved; the tier owns its host blocks from now on. If it has the block already,
  /// it releases these.
  void add(const RecordKey& key, std::vector<std::int32_t> host) {
    SLUICE_ASSERT(reserved_ > 0 && host.size() == static_cast<std::size_t>(layers_), "room, and a block of each layer");
    --reserved_;
    const auto [at, is_new] = index_.try_emplace(key);
    if (!is_new) return release(host);
    entries_.push_back({key, std::move(host), 0});
    at->second = std::prev(entries_.end());
    ++counts_.blocks;
    ++counts_.stored;
    tell_idle();
  }

  /// A request that waits will start with these blocks, which stay pinned until it does, or leaves.
  void keep_for(RequestId id, std::vector<RecordKey> keys) {
    if (keys.empty()) return;
    pin(keys);
    waiting_[index(id)] = std::move(keys);
  }
  [[nodiscard]] bool keeps_for(RequestId id) const { return waiting_.contains(index(id)); }
  /// Ends that, and returns the keys.
  [[nodiscard]] std::vector<RecordKey> take_kept(RequestId id) {
    const auto found = waiting_.find(index(id));
    if (found == waiting_.end()) return {};
    std::vector<RecordKey> keys = std::move(found->second);
    waiting_.erase(found);
    unpin(keys);
    return keys;
  }

 private:
  struct Entry {
    RecordKey key;
    std::vector<std::int32_t> host; ///< by layer
    int pins = 0;
  };
  struct HashKey {
    std::size_t operator()(const RecordKey& key) const { return static_cast<std::size_t>(key.low); }
  };
  using Entries = std::list<Entry>;

  bool evict_one() {
    const auto least = std::find_if(entries_.begin(), entries_.end(), [](const Entry& one) { return one.pins == 0; });
    if (least == entries_.end()) return false;
    release(least->host);
    index_.erase(least->key);
    entries_.erase(least);
    --counts_.blocks;
    ++counts_.evicted;
    tell_idle();
    return true;
  }
  void release(std::span<const std::int32_t> host) {
    for (const std::int32_t block : host) store_->give_host(block);
  }
  void tell_idle() { store_->keep_free_on_host((counts_.capacity - counts_.blocks) * layers_); }

  KvStore* store_;
  int layers_;
  Entries entries_; ///< the least recently used first
  std::unordered_map<RecordKey, Entries::iterator, HashKey> index_;
  std::unordered_map<std::uint32_t, std::vector<RecordKey>> waiting_; ///< by request
  std::int64_t reserved_ = 0; ///< token blocks that are on their way to the tier
  HostTierCounts counts_;
};

} // namespace sluice
