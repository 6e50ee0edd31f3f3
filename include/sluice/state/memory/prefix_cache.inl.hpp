// SPDX-License-Identifier: Apache-2.0
// PrefixCache: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/state/memory/prefix_cache.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

SLUICE_INLINE PrefixCache::PrefixCache(TokenBlocks blocks, bool each)
    : blocks_(static_cast<std::size_t>(blocks.count()) + 1),
      ends_(static_cast<std::uint32_t>(blocks.count())),
      total_(blocks.count()),
      free_(blocks.count()),
      each_(each) {
  SLUICE_ASSERT(blocks.count() >= 0, "no negative number of blocks");
  const std::uint32_t count = ends_;
  for (std::uint32_t i = 0; i <= count; ++i) { // the last of these is both ends of the queue
    blocks_[i].after = i == count ? 0 : i + 1;
    blocks_[i].before = i == 0 ? count : i - 1;
  }
}

SLUICE_INLINE void PrefixCache::resize(TokenBlocks total) {
  SLUICE_ASSERT(total.count() >= total_ - free_, "room for the blocks that are held");
  for (; total_ > total.count(); --total_) {
    gone_.push_back(blocks_[ends()].after);
    unlink(gone_.back());
    forget(gone_.back());
  }
  for (; total_ < total.count(); ++total_) {
    if (gone_.empty()) {
      gone_.push_back(static_cast<std::uint32_t>(blocks_.size()));
      blocks_.emplace_back();
    }
    link(gone_.back(), ends());
    gone_.pop_back();
  }
}

SLUICE_INLINE bool PrefixCache::has(BlockKey key) const {
  SLUICE_ASSERT(each_, "a cache that finds each key by itself");
  return block_of(nobody, key) != nobody;
}

SLUICE_INLINE PrefixCache::Found PrefixCache::find_held(std::span<const BlockKey> keys) const {
  Found found;
  for (std::uint32_t block = nobody; found.blocks < keys.size(); ++found.blocks) {
    block = block_of(block, keys[found.blocks]);
    if (block == nobody) break;
    found.held += blocks_[block].holders > 0 ? 1u : 0u;
  }
  return found;
}

SLUICE_INLINE void PrefixCache::add_found(std::span<const BlockKey> keys, std::vector<std::uint32_t>& blocks) const {
  std::uint32_t block = nobody;
  for (const BlockKey key : keys) blocks.push_back(block = block_of(block, key));
}

SLUICE_INLINE std::int64_t PrefixCache::freed(std::vector<std::uint32_t>& given,
                                              std::vector<std::uint32_t>& taken) const {
  return freed_of(
      given, taken, [this](std::uint32_t block) { return std::int64_t{blocks_[block].holders}; },
      [](std::uint32_t) { return 1; });
}

SLUICE_INLINE void PrefixCache::attach(Table& table, std::span<const BlockKey> keys) {
  SLUICE_ASSERT(table.blocks.empty(), "a table without blocks");
  std::uint32_t block = nobody;
  for (const BlockKey key : keys) {
    block = block_of(block, key);
    SLUICE_ASSERT(block != nobody, "a key that can be found");
    if (blocks_[block].holders++ == 0) unlink(block);
    table.blocks.push_back(block);
  }
  table.sealed = keys.size();
}

SLUICE_INLINE void PrefixCache::extend(Table& table, std::size_t count, std::vector<BlockKey>* overwritten) {
  SLUICE_ASSERT(static_cast<std::int64_t>(count) <= free_, "as many free blocks");
  for (; count > 0; --count) {
    const std::uint32_t block = blocks_[ends()].after;
    unlink(block);
    if (overwritten != nullptr && blocks_[block].findable()) overwritten->push_back(blocks_[block].key);
    forget(block);
    blocks_[block].holders = 1;
    table.blocks.push_back(block);
  }
}

SLUICE_INLINE void PrefixCache::seal(Table& table, std::span<const BlockKey> keys) {
  SLUICE_ASSERT(keys.size() <= table.blocks.size(), "a key per block held, at most");
  if (table.sealed >= keys.size()) return;
  std::uint32_t before = each_ ? nobody : last_sealed(table, keys);
  for (; table.sealed < keys.size(); ++table.sealed) {
    const std::uint32_t at = table.blocks[table.sealed];
    const BlockKey key = keys[table.sealed];
    std::uint32_t known = block_of(before, key);
    if (known == nobody && !blocks_[at].findable()) name(known = at, key, before);
    before = each_ ? nobody : known;
  }
}

SLUICE_INLINE void PrefixCache::release(Table& table) {
  for (std::size_t i = table.blocks.size(); i-- > 0;) {
    const std::uint32_t block = table.blocks[i];
    SLUICE_ASSERT(blocks_[block].holders > 0, "a block that is held");
    if (--blocks_[block].holders == 0) link(block, blocks_[ends()].before);
  }
  table.blocks.clear();
  table.sealed = 0;
}

SLUICE_INLINE void PrefixCache::release_first(Table& table, std::size_t first) {
  for (std::size_t i = first; i < table.blocks.size(); ++i) {
    const std::uint32_t block = table.blocks[i];
    SLUICE_ASSERT(blocks_[block].holders > 0, "a block that is held");
    if (--blocks_[block].holders == 0) link(block, ends());
  }
  table.blocks.resize(std::min(first, table.blocks.size()));
  table.sealed = std::min(first, table.sealed);
}

SLUICE_INLINE void PrefixCache::unlink(std::uint32_t block) {
  blocks_[blocks_[block].before].after = blocks_[block].after;
  blocks_[blocks_[block].after].before = blocks_[block].before;
  --free_;
}

SLUICE_INLINE void PrefixCache::link(std::uint32_t block, std::uint32_t before) {
  const std::uint32_t after = blocks_[before].after;
  blocks_[block].before = before;
  blocks_[block].after = after;
  blocks_[before].after = block;
  blocks_[after].before = block;
  ++free_;
}

SLUICE_INLINE std::uint32_t PrefixCache::block_of(std::uint32_t before, BlockKey key) const {
  if (before != nobody)
    if (const std::uint32_t next = blocks_[before].next;
        next != nobody && blocks_[next].key == key && blocks_[next].findable())
      return next;
  return index_.find(key, [this](std::uint32_t block) { return blocks_[block].key; });
}

SLUICE_INLINE std::uint32_t PrefixCache::last_sealed(const Table& table, std::span<const BlockKey> keys) const {
  if (table.sealed == 0) return nobody;
  const std::uint32_t own = table.blocks[table.sealed - 1];
  if (blocks_[own].findable() && blocks_[own].key == keys[table.sealed - 1]) return own;
  std::uint32_t block = nobody; // another block had its key first
  for (const BlockKey key : keys.first(table.sealed)) block = block_of(block, key);
  return block;
}

SLUICE_INLINE void PrefixCache::name(std::uint32_t block, BlockKey key, std::uint32_t before) {
  blocks_[block].key = key;
  if (before != nobody) {
    std::uint32_t& next = blocks_[before].next;
    if (next == nobody || blocks_[next].place != behind) {
      next = block;
      blocks_[block].place = behind;
      return;
    }
  }
  to_index(block);
}

SLUICE_INLINE void PrefixCache::to_index(std::uint32_t block) {
  if (!index_.holds(++indexed_)) index_.grow(2 * indexed_);
  index_.add(blocks_[block].key, block);
  blocks_[block].place = indexed;
}

SLUICE_INLINE void PrefixCache::forget(std::uint32_t block) {
  Block& of = blocks_[block];
  // What was computed behind it stays findable if it becomes known again. (Or that block has another key by now and
  // is behind another one: then it is found in both ways.)
  if (const std::uint32_t next = std::exchange(of.next, nobody); next != nobody && blocks_[next].place == behind)
    to_index(next);
  if (of.place == indexed) {
    index_.remove(of.key, block);
    --indexed_;
  }
  of.place = nowhere;
}

} // namespace sluice
