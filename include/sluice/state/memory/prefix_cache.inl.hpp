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
#include <vector>

namespace sluice {

SLUICE_INLINE PrefixCache::PrefixCache(TokenBlocks blocks)
    : blocks_(static_cast<std::size_t>(blocks.count()) + 1),
      ends_(static_cast<std::uint32_t>(blocks.count())),
      total_(blocks.count()),
      free_(blocks.count()) {
  SLUICE_ASSERT(blocks.count() >= 0, "no negative number of blocks");
  const std::uint32_t count = ends_;
  for (std::uint32_t i = 0; i <= count; ++i) { // the last of these is both ends of the queue
    blocks_[i].after = i == count ? 0 : i + 1;
    blocks_[i].before = i == 0 ? count : i - 1;
  }
  index_ = KeyIndex(blocks_.size());
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
  if (index_.holds(blocks_.size())) return;
  index_ = KeyIndex(2 * blocks_.size());
  for (std::uint32_t block = 0; block < blocks_.size(); ++block)
    if (blocks_[block].findable) index_.add(blocks_[block].key, block);
}

SLUICE_INLINE std::size_t PrefixCache::find(std::span<const BlockKey> keys) const {
  std::size_t found = 0;
  while (found < keys.size() && block_of(keys[found]) != nobody) ++found;
  return found;
}

SLUICE_INLINE PrefixCache::Found PrefixCache::find_held(std::span<const BlockKey> keys) const {
  Found found;
  for (; found.blocks < keys.size(); ++found.blocks) {
    const std::uint32_t block = block_of(keys[found.blocks]);
    if (block == nobody) break;
    found.held += blocks_[block].holders > 0 ? 1u : 0u;
  }
  return found;
}

SLUICE_INLINE void PrefixCache::add_found(std::span<const BlockKey> keys, std::vector<std::uint32_t>& blocks) const {
  for (const BlockKey key : keys) blocks.push_back(block_of(key));
}

SLUICE_INLINE std::int64_t PrefixCache::freed(std::vector<std::uint32_t>& given,
                                              std::vector<std::uint32_t>& taken) const {
  return freed_of(
      given, taken, [this](std::uint32_t block) { return blocks_[block].holders; }, [](std::uint32_t) { return 1; });
}

SLUICE_INLINE void PrefixCache::attach(Table& table, std::span<const BlockKey> keys) {
  SLUICE_ASSERT(table.blocks.empty(), "a table without blocks");
  for (const BlockKey key : keys) {
    const std::uint32_t block = block_of(key);
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
    index_.prefetch(blocks_[blocks_[block].after].key); // of the next one
    unlink(block);
    if (overwritten != nullptr && blocks_[block].findable) overwritten->push_back(blocks_[block].key);
    forget(block);
    blocks_[block].holders = 1;
    table.blocks.push_back(block);
  }
}

SLUICE_INLINE void PrefixCache::seal(Table& table, std::span<const BlockKey> keys) {
  SLUICE_ASSERT(keys.size() <= table.blocks.size(), "a key per block held, at most");
  for (; table.sealed < keys.size(); ++table.sealed) {
    const std::uint32_t at = table.blocks[table.sealed];
    Block& block = blocks_[at];
    if (block.findable || !index_.add_new(keys[table.sealed], at, [this](std::uint32_t i) { return blocks_[i].key; }))
      continue;
    block.key = keys[table.sealed];
    block.findable = true;
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

SLUICE_INLINE std::uint32_t PrefixCache::block_of(BlockKey key) const {
  return index_.find(key, [this](std::uint32_t block) { return blocks_[block].key; });
}

SLUICE_INLINE void PrefixCache::forget(std::uint32_t block) {
  if (!blocks_[block].findable) return;
  blocks_[block].findable = false;
  index_.remove(blocks_[block].key, block);
}

} // namespace sluice
