// SPDX-License-Identifier: Apache-2.0
// GroupPrefixCache: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/state/memory/group_prefix_cache.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

SLUICE_INLINE GroupPrefixCache::GroupPrefixCache(LayerBlocks room, const KvBlocks& kv)
    : kv_(kv), total_(room.count()), blank_(room.count()), free_(room.count()) {
  SLUICE_ASSERT(room.count() >= 0 && !kv.empty(), "room for KV in groups");
  for (const KvPart& part : kv.parts()) {
    least_ = std::min(least_, part.size());
    cycle_ = std::lcm(cycle_, part.step);
    if (!part.grows()) longest_ = std::max(longest_, part.keep);
    grows_ = grows_ || part.grows();
  }
  index_ = KeyIndex(most_entries());
  slots_.resize(1); // both ends of the queue
}

SLUICE_INLINE void GroupPrefixCache::resize(LayerBlocks room) {
  const std::int64_t more = room.count() - total_;
  SLUICE_ASSERT(free_ + more >= 0, "room for what is held");
  while (blank_ + more < 0) drop_oldest();
  total_ += more;
  blank_ += more;
  free_ += more;
  if (index_.holds(most_entries())) return;
  index_ = KeyIndex(2 * most_entries());
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (slots_[slot].findable) index_.add(slots_[slot].key, slot);
}

SLUICE_INLINE std::size_t GroupPrefixCache::find(std::span<const BlockKey> keys) const {
  std::int64_t found = known(keys);
  for (std::int64_t before = -1; found != before && found > 0;) {
    before = found;
    for (std::size_t g = 0; g < parts().size(); ++g) found = best(g, keys, found);
  }
  return static_cast<std::size_t>(found);
}

SLUICE_INLINE bool GroupPrefixCache::may_find(std::span<const BlockKey> keys) const {
  return known(keys) >= std::ssize(keys) / cycle_ * cycle_;
}

SLUICE_INLINE std::int64_t GroupPrefixCache::held(std::span<const BlockKey> keys) const {
  const auto count = static_cast<std::int64_t>(keys.size());
  if (!grows_) return 0;
  std::int64_t least = std::max<std::int64_t>(0, std::min(count, count + 1 - longest_));
  for (std::size_t g = 0; g < parts().size() && least > 0; ++g) {
    const KvPart& part = parts()[g];
    if (!part.grows()) continue;
    std::int64_t entries = 0;
    for (std::int64_t entry = 0; entry < count / part.step; ++entry)
      entries += slots_[find(g, keys, entry)].holders > 0 ? 1 : 0;
    least = std::min(least, entries * part.step);
  }
  return least / cycle_ * cycle_;
}

SLUICE_INLINE void GroupPrefixCache::add_held(const Table& table, std::vector<std::uint32_t>& entries) const {
  for (const Table::Run& run : table.runs)
    std::copy_if(run.entries.begin(), run.entries.end(), std::back_inserter(entries),
                 [](std::uint32_t entry) { return entry != nobody; });
}

SLUICE_INLINE void GroupPrefixCache::add_found(std::span<const BlockKey> keys,
                                               std::vector<std::uint32_t>& entries) const {
  for (std::size_t g = 0; g < parts().size(); ++g)
    for (std::int64_t entry = 0; parts()[g].grows() && entry < std::ssize(keys) / parts()[g].step; ++entry)
      entries.push_back(find(g, keys, entry));
}

SLUICE_INLINE std::int64_t GroupPrefixCache::freed(std::vector<std::uint32_t>& given,
                                                   std::vector<std::uint32_t>& taken) const {
  return freed_of(
      given, taken, [this](std::uint32_t entry) { return slots_[entry].holders; },
      [this](std::uint32_t entry) { return parts()[slots_[entry].group].size(); });
}

SLUICE_INLINE bool GroupPrefixCache::has(std::size_t g, std::span<const BlockKey> keys) const {
  return !keys.empty() && find(key_of(g, keys.back())) != nobody;
}

SLUICE_INLINE void GroupPrefixCache::attach(Table& table, std::span<const BlockKey> keys, std::size_t found) {
  SLUICE_ASSERT(table.blocks == 0, "a table without blocks");
  table.runs.resize(parts().size());
  table.shared = grows_ ? known(keys) : static_cast<std::int64_t>(found);
  table.blocks = static_cast<std::int64_t>(found);
  for (std::size_t g = 0; g < parts().size(); ++g) {
    const KvPart& part = parts()[g];
    Table::Run& run = table.runs[g];
    if (part.state) {
      if (found > 0) touch(find(key_of(g, keys[found - 1])));
      continue;
    }
    const auto [first, last] = part.kept(table.blocks);
    run.first = first;
    for (std::int64_t entry = first; entry < last; ++entry) {
      std::uint32_t slot = find(g, keys, entry);
      SLUICE_ASSERT(slot != nobody || !part.grows(), "a prefix that can be found");
      if (slot != nobody && slots_[slot].holders > 0 && !part.grows()) slot = nobody; // `extend` takes room for it
      if (slot != nobody && slots_[slot].holders++ == 0) unlink(slot);
      run.entries.push_back(slot);
    }
  }
}

SLUICE_INLINE void GroupPrefixCache::extend(Table& table, std::int64_t blocks) {
  SLUICE_ASSERT(blocks >= table.blocks, "a table that grows");
  table.runs.resize(parts().size());
  for (std::size_t g = 0; g < parts().size(); ++g) { // before any takes room
    const auto [first, last] = parts()[g].kept(blocks);
    Table::Run& run = table.runs[g];
    if (parts()[g].state) continue;
    const auto passed =
        std::min(static_cast<std::int64_t>(run.entries.size()), std::max<std::int64_t>(0, first - run.first));
    for (std::int64_t i = 0; i < passed; ++i)
      if (const std::uint32_t slot = run.entries[static_cast<std::size_t>(i)]; slot != nobody) give_up(slot);
    run.entries.erase(run.entries.begin(), run.entries.begin() + passed);
    run.first = run.entries.empty() ? first : run.first + passed;
  }
  for (std::size_t g = 0; g < parts().size(); ++g) {
    const std::int64_t last = parts()[g].kept(blocks).second;
    Table::Run& run = table.runs[g];
    if (parts()[g].state) {
      run.first = last - 1;
      if (run.entries.empty()) run.entries.push_back(take(g));
      continue;
    }
    for (std::uint32_t& slot : run.entries)
      if (slot == nobody) slot = take(g);
    while (run.first + static_cast<std::int64_t>(run.entries.size()) < last) run.entries.push_back(take(g));
  }
  table.blocks = blocks;
}

SLUICE_INLINE void GroupPrefixCache::release(Table& table) {
  for (std::int64_t block = table.blocks; block-- > 0;)
    for (std::size_t g = 0; g < table.runs.size(); ++g) {
      const KvPart& part = parts()[g];
      Table::Run& run = table.runs[g];
      if (run.entries.empty() || (block + 1) % part.step != 0) continue;
      if ((block + 1) / part.step != run.first + static_cast<std::int64_t>(run.entries.size())) continue;
      if (run.entries.back() != nobody) give_up(run.entries.back());
      run.entries.pop_back();
    }
  table = {};
}

SLUICE_INLINE std::uint32_t GroupPrefixCache::find(BlockKey key) const {
  return index_.find(key, [this](std::uint32_t slot) { return slots_[slot].key; });
}

SLUICE_INLINE std::uint32_t GroupPrefixCache::find(std::size_t g, std::span<const BlockKey> keys,
                                                   std::int64_t entry) const {
  return find(key_of(g, keys[static_cast<std::size_t>((entry + 1) * parts()[g].step - 1)]));
}

SLUICE_INLINE std::int64_t GroupPrefixCache::known(std::span<const BlockKey> keys) const {
  auto count = static_cast<std::int64_t>(keys.size());
  for (std::size_t g = 0; g < parts().size(); ++g) {
    const KvPart& part = parts()[g];
    if (!part.grows()) continue;
    std::int64_t entry = 0;
    while (entry < count / part.step && find(g, keys, entry) != nobody) ++entry;
    count = std::min(count, entry * part.step);
  }
  return count;
}

SLUICE_INLINE std::int64_t GroupPrefixCache::best(std::size_t g, std::span<const BlockKey> keys,
                                                  std::int64_t count) const {
  const KvPart& part = parts()[g];
  if (part.state) {
    while (count > 0 && find(key_of(g, keys[static_cast<std::size_t>(count - 1)])) == nobody) --count;
    return count;
  }
  count = count / part.step * part.step;
  if (part.grows()) return count;
  for (std::int64_t entry = count / part.step; entry-- > part.first_read(count) / part.step;)
    if (find(g, keys, entry) == nobody) count = entry * part.step; // its end is the first that does not read it
  return count;
}

SLUICE_INLINE void GroupPrefixCache::unlink(std::uint32_t slot) {
  slots_[slots_[slot].before].after = slots_[slot].after;
  slots_[slots_[slot].after].before = slots_[slot].before;
  free_ -= parts()[slots_[slot].group].size();
}

SLUICE_INLINE void GroupPrefixCache::append(std::uint32_t slot) {
  const std::uint32_t last = slots_[ends].before;
  slots_[slot].before = last;
  slots_[slot].after = ends;
  slots_[last].after = slot;
  slots_[ends].before = slot;
  free_ += parts()[slots_[slot].group].size();
}

SLUICE_INLINE void GroupPrefixCache::touch(std::uint32_t slot) {
  if (slots_[slot].holders > 0) return;
  unlink(slot);
  append(slot);
}

SLUICE_INLINE void GroupPrefixCache::give_up(std::uint32_t slot) {
  SLUICE_ASSERT(slots_[slot].holders > 0, "an entry that is held");
  if (--slots_[slot].holders == 0) append(slot);
}

SLUICE_INLINE void GroupPrefixCache::drop_oldest() {
  const std::uint32_t oldest = slots_[ends].after;
  unlink(oldest);
  const std::int64_t freed = parts()[slots_[oldest].group].size();
  blank_ += freed;
  free_ += freed;
  if (slots_[oldest].findable) index_.remove(slots_[oldest].key, oldest);
  slots_[oldest].findable = false;
  unused_.push_back(oldest);
}

SLUICE_INLINE std::uint32_t GroupPrefixCache::take(std::size_t g) {
  const std::int64_t size = parts()[g].size();
  SLUICE_ASSERT(size <= free_, "as much free room");
  while (blank_ < size) drop_oldest();
  blank_ -= size;
  free_ -= size;
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = unused_.back();
  unused_.pop_back();
  slots_[slot] = {.holders = 1, .group = static_cast<std::uint8_t>(g)};
  return slot;
}

SLUICE_INLINE void GroupPrefixCache::name(std::uint32_t slot, BlockKey key) {
  if (slots_[slot].findable || find(key) != nobody) return;
  slots_[slot].key = key;
  slots_[slot].findable = true;
  index_.add(key, slot);
}

SLUICE_INLINE void GroupPrefixCache::store(std::size_t g, BlockKey key) {
  if (const std::uint32_t there = find(key); there != nobody) return touch(there);
  if (parts()[g].size() > free_) return;
  const std::uint32_t slot = take(g);
  name(slot, key);
  give_up(slot);
}

} // namespace sluice
