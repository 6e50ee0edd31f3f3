// SPDX-License-Identifier: Apache-2.0
// PrefixReuse: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/engine/core/prefix_reuse.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

SLUICE_INLINE void PrefixReuse::enter(Slot slot, RequestId id, std::span<const BlockKey> prompt) {
  if (holdings_.size() <= index(slot)) holdings_.resize(index(slot) + 1);
  Entry& entry = holdings_[index(slot)];
  entry.keys.assign(prompt.begin(), prompt.end());
  entry.id = id;
  entry.offered = 0;
  entry.arrived = Tokens{0};
}

SLUICE_INLINE bool PrefixReuse::look_up(Slot slot, RequestRow& row, Tokens block_tokens) {
  // The last token is always computed, because its output is needed.
  const auto most = static_cast<std::size_t>((row.context().count() - 1) / block_tokens.count());
  const std::span<const BlockKey> keys = keys_of(slot, most);
  const auto [found, held] = found_and_held(keys);
  const Tokens computed = std::max(Tokens{found * block_tokens.count()}, holdings_[index(slot)].arrived);
  // Found blocks that no request holds take room like new ones, and so do those that arrived: a slack below 0 counts
  // them.
  const Tokens slack = Tokens{held * block_tokens.count()} - computed;
  const bool changed = row.computed != computed || row.slack != slack;
  row.computed = computed;
  row.slack = slack;
  return changed;
}

SLUICE_INLINE std::size_t PrefixReuse::finds(std::span<const BlockKey> keys) const {
  return groups_ ? groups_->cache.find(keys) : cache_.find(keys);
}

SLUICE_INLINE bool PrefixReuse::may_find(std::span<const BlockKey> keys) const {
  return groups_ ? groups_->cache.may_find(keys) : cache_.find(keys) == keys.size();
}

SLUICE_INLINE void PrefixReuse::attach(Slot slot, const RequestRow& row, Tokens block_tokens) {
  Entry& entry = holdings_[index(slot)];
  const auto found = static_cast<std::size_t>(row.found_on_device().count() / block_tokens.count());
  if (groups_) {
    const auto most = static_cast<std::size_t>((row.context().count() - 1) / block_tokens.count());
    GroupPrefixCache::Table& table = groups_->table(slot);
    groups_->cache.attach(table, keys_of(slot, most), found);
    table.prompt = row.spec.prompt.count() / block_tokens.count();
    entry.table.sealed = found;
    return;
  }
  std::span<const BlockKey> keys = keys_of(slot, found);
  if (entry.arrived.count() > 0) keys = keys.first(cache_.find(keys)); // the others take new blocks
  cache_.attach(entry.table, keys);
}

SLUICE_INLINE void PrefixReuse::extend(Slot slot, Tokens tokens, Tokens block_tokens) {
  Entry& entry = holdings_[index(slot)];
  const auto blocks = static_cast<std::size_t>(blocks_for(tokens, block_tokens).count());
  if (groups_)
    groups_->cache.extend(groups_->table(slot), static_cast<std::int64_t>(blocks));
  else if (const std::size_t had = entry.table.blocks.size(); blocks > had) { // a load that lost blocks on the way
    cache_.extend(entry.table, blocks - had, notes_overwritten_ ? &overwritten_ : nullptr); // has left their room
    if (named())
      taken_.insert(taken_.end(), entry.table.blocks.begin() + static_cast<std::ptrdiff_t>(had),
                    entry.table.blocks.end());
  }
}

SLUICE_INLINE void PrefixReuse::seal(Slot slot, Tokens computed, Tokens block_tokens) {
  Entry& entry = holdings_[index(slot)];
  const auto full = static_cast<std::size_t>(computed.count() / block_tokens.count());
  if (full <= entry.table.sealed) return;
  const std::span<const BlockKey> keys = keys_of(slot, full);
  if (groups_) {
    groups_->cache.seal(groups_->table(slot), entry.table.sealed, keys, groups_->keeps);
    entry.table.sealed = full;
  } else {
    cache_.seal(entry.table, keys);
  }
}

SLUICE_INLINE bool PrefixReuse::finds_the_same(Slot slot, const RequestRow& row, Tokens block_tokens) const {
  const auto most = static_cast<std::size_t>((row.context().count() - 1) / block_tokens.count());
  const std::span<const BlockKey> keys(holdings_[index(slot)].keys);
  const auto [found, held] = found_and_held(keys.first(std::min(most, keys.size())));
  const Tokens computed = std::max(Tokens{found * block_tokens.count()}, holdings_[index(slot)].arrived);
  return computed == row.found_on_device() && Tokens{held * block_tokens.count()} - computed - row.loading == row.slack;
}

SLUICE_INLINE LayerBlocks PrefixReuse::freed(std::span<const Slot> leaving, std::span<const Slot> joining,
                                             std::span<const RequestRow> rows, Tokens block_tokens, int layers) const {
  std::vector<std::uint32_t> given, taken;
  for (const Slot slot : leaving) {
    const std::vector<std::uint32_t>& own = holdings_[index(slot)].table.blocks;
    given.insert(given.end(), own.begin(), own.end());
    if (groups_ && index(slot) < groups_->tables.size()) groups_->cache.add_held(groups_->tables[index(slot)], given);
  }
  for (const Slot slot : joining) {
    const auto found = rows[index(slot)].found_on_device().count() / block_tokens.count();
    const std::span<const BlockKey> keys{holdings_[index(slot)].keys.data(), static_cast<std::size_t>(found)};
    groups_ ? groups_->cache.add_found(keys, taken) : cache_.add_found(keys, taken);
  }
  if (groups_) return LayerBlocks{groups_->cache.freed(given, taken)};
  return across_layers(TokenBlocks{cache_.freed(given, taken)}, layers);
}

SLUICE_INLINE std::span<const BlockKey> PrefixReuse::keys_within(Slot slot, Tokens tokens, Tokens block_tokens) {
  return keys_of(slot, static_cast<std::size_t>(tokens.count() / block_tokens.count()));
}

SLUICE_INLINE std::span<const BlockKey> PrefixReuse::loaded_keys(Slot slot, const RequestRow& row,
                                                                 Tokens block_tokens) const {
  if (row.loading.count() == 0) return {};
  const Tokens before = row.meets > 0 ? Tokens{row.meets} : row.computed - row.loading;
  const auto first = static_cast<std::size_t>(before.count() / block_tokens.count());
  const auto count = static_cast<std::size_t>(row.loading.count() / block_tokens.count());
  return std::span<const BlockKey>(holdings_[index(slot)].keys).subspan(first, count);
}

SLUICE_INLINE void PrefixReuse::release(Slot slot) {
  Entry& entry = holdings_[index(slot)];
  entry.arrived = Tokens{0};
  if (groups_) {
    groups_->cache.release(groups_->table(slot));
    entry.table.sealed = 0;
  } else {
    cache_.release(entry.table);
  }
}

SLUICE_INLINE void PrefixReuse::resize(LayerBlocks room, int layers) {
  groups_ ? groups_->cache.resize(room) : cache_.resize(TokenBlocks{room.count() / layers});
}

SLUICE_INLINE LayerBlocks PrefixReuse::free(int layers) const {
  return groups_ ? groups_->cache.free() : across_layers(cache_.free(), layers);
}

SLUICE_INLINE void PrefixReuse::use(Slot slot, std::uint64_t user, Tokens tokens, Tokens block_tokens) {
  for (const BlockKey key : keys_within(slot, tokens, block_tokens)) {
    if (const std::uint32_t known = use_of(key); known != KeyIndex::nobody) {
      if (users_[known].user != user) users_[known].user = several;
      continue;
    }
    users_.push_back({key, user});
    if (!used_.holds(users_.size())) used_.grow(2 * users_.size());
    used_.add(key, static_cast<std::uint32_t>(users_.size() - 1));
  }
}

SLUICE_INLINE std::size_t PrefixReuse::first_own(Slot slot, std::uint64_t user, Tokens tokens, Tokens block_tokens) {
  const std::span<const BlockKey> keys = keys_within(slot, tokens, block_tokens);
  std::size_t first = keys.size();
  for (; first > 0; --first)
    if (const std::uint32_t known = use_of(keys[first - 1]); known != KeyIndex::nobody && users_[known].user != user)
      break;
  return first;
}

SLUICE_INLINE std::uint32_t PrefixReuse::use_of(BlockKey key) const {
  return used_.find(key, [this](std::uint32_t use) { return users_[use].key; });
}

SLUICE_INLINE void PrefixReuse::keep_users(std::size_t kept) {
  users_.resize(kept);
  most_users_ = std::max(least_users, 2 * kept);
  index_users();
}

SLUICE_INLINE void PrefixReuse::index_users() {
  used_ = KeyIndex(2 * users_.size());
  for (std::uint32_t use = 0; use < users_.size(); ++use) used_.add(users_[use].key, use);
}

SLUICE_INLINE void PrefixReuse::pin(Slot slot, Pin pin) {
  std::swap(pin.table, holdings_[index(slot)].table);
  pinned_ += pin.room;
  pins_.push_back(std::move(pin));
}

SLUICE_INLINE LayerBlocks PrefixReuse::unpin(std::size_t i) {
  const LayerBlocks room = pins_[i].room;
  cache_.release(pins_[i].table);
  pinned_ -= room;
  pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(i));
  return room;
}

SLUICE_INLINE GroupPrefixCache::Table& PrefixReuse::Groups::table(Slot slot) {
  if (tables.size() <= index(slot)) tables.resize(index(slot) + 1);
  return tables[index(slot)];
}

SLUICE_INLINE std::pair<std::int64_t, std::int64_t> PrefixReuse::found_and_held(std::span<const BlockKey> keys) const {
  if (groups_) {
    const std::size_t found = groups_->cache.find(keys);
    return {static_cast<std::int64_t>(found), groups_->cache.held(keys.first(found))};
  }
  const PrefixCache::Found found = cache_.find_held(keys);
  return {static_cast<std::int64_t>(found.blocks), static_cast<std::int64_t>(found.held)};
}

SLUICE_INLINE std::span<const BlockKey> PrefixReuse::keys_of(Slot slot, std::size_t count) {
  Entry& entry = holdings_[index(slot)];
  if (named() && entry.keys.size() < count) names_.name(names_.of, entry.id, count, entry.keys);
  while (entry.keys.size() < count) {
    BlockKey before = entry.keys.empty() ? BlockKey{} : entry.keys.back();
    if (engine_ != 0) before = next_key(before, engine_);
    entry.keys.push_back(next_key(before, (std::uint64_t{index(entry.id)} << 32) + entry.keys.size() + 1));
  }
  return std::span<const BlockKey>(entry.keys).first(count);
}

} // namespace sluice
