// SPDX-License-Identifier: Apache-2.0
// TierStore: the blocks that one tier of memory keeps after their requests, and which of them leave first.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/memory/eviction.hpp"
#include "sluice/state/memory/prefix_cache.hpp"
#include "sluice/state/memory/tier.hpp"
#include "sluice/workload/content.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// The keys of blocks in one tier: no data, no time. Simulated tiers and real ones have the same.
///
/// - `store` takes the blocks of one request in order. They are touched last first, so that the beginning of a request
///   is more recent than what follows it: with LRU it survives longest, and only leaves of the prefix tree leave.
/// - LRU first touches what it holds and then evicts; LFU goes block by block, as LMCache does; ARC evicts for all new
///   blocks of a request or stores none of them, as vLLM does. Whether a rule may evict blocks of the request that it
///   stores follows the rule's source: LRU and ARC never do, LFU may.
/// - If the blocks of a request exceed the tier, its first ones are kept (LRU, LFU, worth), or none (ARC).
/// - With worth a block never leaves before one that follows it. A block that is not held but precedes a held one has a
///   place in the tree, which takes the room of a block.
/// - A block that stays when it would leave (`make_room_for`) is in no order until it may leave (`may_leave`), so that
///   an eviction costs the same however many stay. Whoever lets blocks stay makes room before each `store`.
///
/// Every operation costs O(blocks it touches), with `least_worth` O(log n) for every leaf that changes. After
/// construction nothing allocates but LFU's list of frequencies, and `BlocksAside`. Memory: 32 bytes a block, 60
/// with worth; with ARC 64, since it also remembers as many evicted blocks in each of two lists (`Ghosts`).
class TierStore {
 public:
  /// Nothing is done with evicted blocks.
  struct Forget {
    void operator()(BlockKey /*key*/) const {}
  };

  TierStore() = default;
  TierStore(TokenBlocks capacity, Replacement replacement)
      : capacity_(static_cast<std::size_t>(capacity.count())), replacement_(replacement) {
    SLUICE_ASSERT(capacity.count() >= 0, "no negative number of blocks");
    blocks_.reserve(capacity_);
    index_ = KeyIndex(capacity_);
    lists_.resize(released + 1);
    if (replacement == Replacement::adaptive) ghosts_ = Ghosts(capacity_);
    if (replacement == Replacement::least_worth) {
      worth_.reserve(capacity_);
      followers_.reserve(capacity_);
      heap_.reserve(capacity_);
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] Replacement replacement() const { return replacement_; }
  [[nodiscard]] bool holds(BlockKey key) const {
    const std::uint32_t block = block_of(key);
    return block != nobody && !is_absent(block);
  }
  /// How many of `keys`, from the first on, are held.
  [[nodiscard]] std::size_t find(std::span<const BlockKey> keys) const {
    std::size_t found = 0;
    for (; found < keys.size(); ++found) {
      if (found + ahead < keys.size()) index_.prefetch(keys[found + ahead]);
      if (!holds(keys[found])) break;
    }
    return found;
  }
  /// A request uses these blocks: the held ones are touched, the last first.
  void touch(std::span<const BlockKey> keys) {
    ++time_;
    touch_held(keys);
  }
  /// The same, and key i is worth `worth_of(i)` from now on, if that is the replacement.
  template <class WorthOf>
  void touch(std::span<const BlockKey> keys, WorthOf&& worth_of) {
    touch(keys);
    if (replacement_ != Replacement::least_worth) return;
    for (const BlockKey key : keys)
      if (const std::uint32_t block = block_of(key); block != nobody && !is_absent(block)) blocks_[block].newer = time_;
    weigh(keys, worth_of);
  }
  /// Key i is worth `worth_of(i)` from now on, if that is the replacement. Nobody uses the blocks.
  template <class WorthOf>
  void weigh(std::span<const BlockKey> keys, WorthOf&& worth_of) {
    if (replacement_ != Replacement::least_worth) return;
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (const std::uint32_t block = block_of(keys[i]); block != nobody && !is_absent(block)) {
        worth_[block] = worth_of(i);
        if (place(block) < set_aside) heap_.move(place(block), leaf_of(block), places());
      }
  }
  /// The held ones of these blocks, except for those that `stays(i)`, are the first to leave, the last one first: as if
  /// never used, and worth less than nothing. A use changes that.
  template <class Stays>
  void leave_first(std::span<const BlockKey> keys, Stays&& stays) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::uint32_t block = block_of(keys[i]);
      if (block == nobody || is_absent(block) || stays(i)) continue;
      if (replacement_ != Replacement::least_worth) {
        move_first(block);
        continue;
      }
      worth_[block] = -std::numeric_limits<double>::infinity();
      if (place(block) < set_aside) heap_.move(place(block), leaf_of(block), places());
    }
  }
  /// A request's blocks `keys` are used: held ones are touched, the others stored, for which others are evicted:
  /// `evicted(key)` for each. `worth_of(i)`: of block i, if that is the replacement. `previous`: the request's block
  /// before them; without one they are its first. Returns how many were stored (written); with LFU a block may be
  /// stored and evicted again by the same request.
  template <class Evicted = Forget, class WorthOf = double (*)(std::size_t)>
  std::size_t store(std::span<const BlockKey> keys, Evicted&& evicted = {}, WorthOf&& worth_of = no_worth,
                    BlockKey previous = {}) {
    ++time_;
    if (replacement_ == Replacement::least_frequent) return store_each(keys.first(fitting(keys)), evicted);
    if (replacement_ == Replacement::adaptive) return store_or_none(keys, evicted);
    if (replacement_ == Replacement::least_worth) return store_by_worth(keys, previous, evicted, worth_of);
    return store_recent(keys.first(fitting(keys)), evicted);
  }
  /// Stores one block on its own, as one that another tier evicts. Returns whether it was not held before; if it was,
  /// it is touched only if `touched`.
  template <class Evicted = Forget>
  bool store_one(BlockKey key, bool touched, Evicted&& evicted = {}) {
    if (!touched && holds(key)) return false;
    return store(std::span<const BlockKey>(&key, 1), evicted) > 0;
  }
  /// Removes those of `keys` that are held, as when they move to another tier. Not for `least_worth`, whose tree would
  /// lose an inner block.
  void remove(std::span<const BlockKey> keys) {
    SLUICE_ASSERT(replacement_ != Replacement::least_worth, "a store without a tree");
    for (const BlockKey key : keys)
      if (const std::uint32_t block = block_of(key); block != nobody && !is_absent(block)) erase(block);
  }
  /// It has room for `capacity` blocks from now on, at most as many as it was made with, and evicts the excess.
  template <class Evicted = Forget>
  void limit(TokenBlocks capacity, Evicted&& evicted = {}) {
    capacity_ = static_cast<std::size_t>(capacity.count());
    target_ = std::min(target_, static_cast<double>(capacity_));
    const auto nothing_stays = [](BlockKey /*key*/) { return false; };
    SLUICE_ASSERT(aside_.empty(), "no block stays");
    while (size_ > capacity_) (void)evict_next(std::numeric_limits<double>::infinity(), nothing_stays, evicted);
  }
  /// Evicts until `blocks` more would fit: none for which `stays(key)`, which is not asked for such a block again
  /// before `may_leave`, and with worth none that is worth more than `worth`. Returns how many would fit. For a tier
  /// whose blocks take time to arrive.
  template <class Stays, class Evicted>
  std::size_t make_room_for(std::size_t blocks, double worth, Stays&& stays, Evicted&& evicted) {
    const auto lacks_room = [&] { return capacity_ - size_ < blocks; };
    if (replacement_ == Replacement::least_worth) {
      while (lacks_room() && !heap_.empty() && heap_.least().worth <= worth)
        if (const std::uint32_t block = heap_.least().block; stays(blocks_[block].key())) {
          remove_leaf(block);
          place(block) = set_aside;
        } else {
          (void)make_room(nobody, worth, evicted);
        }
    }
    while (lacks_room() && replacement_ != Replacement::least_worth && evict_next(worth, stays, evicted)) {
    }
    return std::min(blocks, capacity_ - size_);
  }
  /// A held block for which `make_room_for` may have been told that it stays may leave from now on.
  void may_leave(BlockKey key) {
    const std::uint32_t block = block_of(key);
    SLUICE_ASSERT(block != nobody, "a held block");
    if (blocks_[block].older != set_aside) return;
    if (replacement_ != Replacement::least_worth) return aside_.free(blocks_[block].newer);
    place(block) = nobody;
    add_leaf(block);
  }
  /// Whether a held block may leave: with worth only one that no other follows and that is worth at most `worth`.
  [[nodiscard]] bool may_evict(BlockKey key, double worth) const {
    const std::uint32_t block = block_of(key);
    return replacement_ != Replacement::least_worth || (followers_[block] == 0 && worth_[block] <= worth);
  }
  /// Memory for all blocks, in bytes.
  [[nodiscard]] std::size_t bytes() const {
    return blocks_.capacity() * sizeof(Block) + index_.bytes() + lists_.capacity() * sizeof(List) +
           worth_.capacity() * sizeof(double) + followers_.capacity() * sizeof(std::uint32_t) + heap_.bytes() +
           aside_.bytes() + ghosts_.bytes();
  }

 private:
  static constexpr std::uint32_t nobody = KeyIndex::nobody;
  /// As `Block::older`. With worth: the block has no place in the heap, and is absent or stays. Otherwise: it stays, is
  /// in no list, and `newer` is its place in `aside_`.
  static constexpr std::uint32_t not_held = nobody - 1, set_aside = nobody - 2;
  static constexpr std::size_t ahead = 8; ///< keys whose places are fetched early
  /// ARC's lists: used once or more often; of held blocks, and of those that it remembers. LRU's only list is the
  /// first, and LFU makes others. And the held blocks that leave first, whatever ARC's target: nobody will use them, so
  /// ARC learns nothing from them and remembers none.
  enum : std::uint32_t { once = 0, often = 1, released = 2 };

  using Block = TierBlock;
  using List = BlockList;

  static double no_worth(std::size_t /*i*/) { return 0; }
  [[nodiscard]] std::size_t fitting(std::span<const BlockKey> keys) const { return std::min(keys.size(), capacity_); }
  [[nodiscard]] std::uint32_t block_of(BlockKey key) const {
    return index_.find(key, [this](std::uint32_t block) { return blocks_[block].key(); });
  }
  /// Whether a block only has a place in the tree, as the predecessor of others.
  [[nodiscard]] bool is_absent(std::uint32_t block) const {
    return replacement_ == Replacement::least_worth && blocks_[block].older == not_held;
  }

  // Lists -------------------------------------------------------------------------------------------------------------

  void unlink(std::uint32_t block) {
    const Block& of = blocks_[block];
    List& list = lists_[of.list];
    if (of.older == set_aside) {
      aside_.remove(of.newer);
    } else {
      (of.older == nobody ? list.oldest : blocks_[of.older].newer) = of.newer;
      (of.newer == nobody ? list.newest : blocks_[of.newer].older) = of.older;
    }
    if (--list.count == 0 && of.list > released) drop_list(of.list);
  }
  /// The block stays: evictions do not see it any more. Its list still counts it.
  void stay(std::uint32_t block) {
    Block& of = blocks_[block];
    if (of.older == set_aside) return aside_.keep_first(of.newer);
    ++lists_[of.list].count;
    unlink(block);
    of.older = set_aside;
    of.newer = aside_.add(block, of.list);
  }
  /// Between two blocks of a list, or at an end of it.
  void link(std::uint32_t block, std::uint32_t to, std::uint32_t older, std::uint32_t newer) {
    List& list = lists_[to];
    Block& of = blocks_[block];
    of.list = to;
    of.older = older;
    of.newer = newer;
    (older == nobody ? list.oldest : blocks_[older].newer) = block;
    (newer == nobody ? list.newest : blocks_[newer].older) = block;
    ++list.count;
  }
  void append(std::uint32_t block, std::uint32_t to) { link(block, to, lists_[to].newest, nobody); }
  void move(std::uint32_t block, std::uint32_t to) {
    unlink(block);
    append(block, to);
  }
  /// The block is the next to leave.
  void move_first(std::uint32_t block) {
    unlink(block);
    link(block, released, nobody, lists_[released].oldest);
  }
  /// The oldest block of those that leave first, or else of `list`.
  [[nodiscard]] std::uint32_t oldest_of(std::uint32_t list) const {
    return lists_[lists_[released].count > 0 ? std::uint32_t{released} : list].oldest;
  }
  std::uint32_t new_block(BlockKey key) {
    std::uint32_t block = free_;
    if (block != nobody) {
      free_ = blocks_[block].newer;
    } else {
      block = static_cast<std::uint32_t>(blocks_.size());
      blocks_.emplace_back();
    }
    blocks_[block] = {};
    blocks_[block].key_low = static_cast<std::uint32_t>(static_cast<std::uint64_t>(key));
    blocks_[block].key_high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(key) >> 32);
    index_.add(key, block);
    return block;
  }
  void free_block(std::uint32_t block) {
    index_.remove(blocks_[block].key(), block);
    blocks_[block].newer = free_;
    free_ = block;
  }
  std::uint32_t insert(BlockKey key, std::uint32_t list) {
    const std::uint32_t block = new_block(key);
    append(block, list);
    ++size_;
    return block;
  }
  void erase(std::uint32_t block) {
    unlink(block);
    free_block(block);
    --size_;
  }
  template <class Evicted>
  void evict(std::uint32_t block, Evicted& evicted) {
    const BlockKey key = blocks_[block].key();
    // The index is in no cache where the next blocks to be evicted have their places.
    std::uint32_t coming = blocks_[block].older == set_aside ? nobody : block;
    for (std::size_t i = 0; i < ahead / 2 && coming != nobody; ++i) coming = blocks_[coming].newer;
    if (coming != nobody) {
      index_.prefetch(blocks_[coming].key());
      if (replacement_ == Replacement::adaptive) ghosts_.prefetch(blocks_[coming].key());
    }
    erase(block);
    evicted(key);
  }
  TouchedBlocks touch_held(std::span<const BlockKey> keys) {
    TouchedBlocks touched;
    for (std::size_t i = keys.size(); i-- > 0;) {
      if (i >= ahead) {
        index_.prefetch(keys[i - ahead]);
        if (replacement_ == Replacement::adaptive) ghosts_.prefetch(keys[i - ahead]);
      }
      if (const std::uint32_t block = block_of(keys[i]); block != nobody) {
        touch_block(block);
        ++touched.held;
      } else if (replacement_ == Replacement::adaptive) {
        touched.remembered = touch_ghost(keys[i]) || touched.remembered;
      }
    }
    return touched;
  }
  void touch_block(std::uint32_t block) {
    if (replacement_ == Replacement::least_frequent) return use_once_more(block);
    if (replacement_ != Replacement::least_worth) move(block, replacement_ == Replacement::adaptive ? often : once);
  }

  /// Evicts one block that does not stay. False: there is none, or with worth, none that is worth at most `worth`.
  template <class Stays, class Evicted>
  bool evict_next(double worth, Stays& stays, Evicted& evicted) {
    const auto first = [&](std::uint32_t list) {
      const std::uint32_t block = aside_.first(list); // all of these are older than what is still linked
      return block != nobody ? block : lists_[list].oldest;
    };
    const auto evicts_from = [&](std::uint32_t list) {
      std::uint32_t block = first(list);
      for (; block != nobody && stays(blocks_[block].key()); block = first(list)) stay(block);
      if (block == nobody) return false;
      replacement_ == Replacement::adaptive ? evict_and_remember(block, evicted) : evict(block, evicted);
      return true;
    };
    if (evicts_from(released)) return true;
    switch (replacement_) {
    case Replacement::least_frequent:
      for (std::uint32_t list = lowest_; list != nobody; list = lists_[list].higher)
        if (evicts_from(list)) return true;
      return false;
    case Replacement::least_recent:
    case Replacement::adaptive: {
      const std::uint32_t list = losing_list(static_cast<std::size_t>(target_));
      return evicts_from(list) || evicts_from(list == once ? often : once);
    }
    case Replacement::least_worth:
      break;
    }
    return make_room(nobody, worth, evicted);
  }

  // LRU ---------------------------------------------------------------------------------------------------------------

  template <class Evicted>
  std::size_t store_recent(std::span<const BlockKey> keys, Evicted& evicted) {
    // The held blocks become recent first, so that others are evicted. Most often they are the first of `keys`, and
    // those behind them are missing.
    std::size_t end = keys.size(); // of the last held one
    for (; end > 0 && block_of(keys[end - 1]) == nobody; --end)
      if (end > ahead) index_.prefetch(keys[end - 1 - ahead]);
    std::size_t wanted = keys.size() - end;
    for (std::size_t i = end; i-- > 0;) {
      if (i >= ahead) index_.prefetch(keys[i - ahead]);
      if (const std::uint32_t block = block_of(keys[i]); block != nobody)
        move(block, 0);
      else
        ++wanted;
    }
    while (size_ + wanted > capacity_) evict(oldest_of(0), evicted);
    if (wanted == 0) return 0;
    std::uint32_t newer = end > 0 ? block_of(keys[end - 1]) : nobody; // the missing ones precede it, the last one first
    for (std::size_t i = keys.size(); i-- > end;) {
      const std::uint32_t block = new_block(keys[i]);
      link(block, 0, newer == nobody ? lists_[0].newest : blocks_[newer].older, newer);
      ++size_;
    }
    if (wanted == keys.size() - end) return wanted;
    for (std::size_t i = end; i-- > 0;) { // gaps among the held ones
      const std::uint32_t block = block_of(keys[i]);
      block != nobody ? move(block, 0) : void(insert(keys[i], 0));
    }
    return wanted;
  }

  // LFU ---------------------------------------------------------------------------------------------------------------

  template <class Evicted>
  std::size_t store_each(std::span<const BlockKey> keys, Evicted& evicted) {
    std::size_t stored = 0;
    for (std::size_t i = keys.size(); i-- > 0;) {
      if (i >= ahead) index_.prefetch(keys[i - ahead]);
      if (const std::uint32_t block = block_of(keys[i]); block != nobody) {
        use_once_more(block);
        continue;
      }
      if (size_ == capacity_) evict(oldest_of(lowest_), evicted);
      insert(keys[i], used_once());
      ++stored;
    }
    return stored;
  }
  [[nodiscard]] std::uint32_t used_once() {
    if (lowest_ == nobody || lists_[lowest_].uses != 1) lowest_ = new_list(1, nobody, lowest_);
    return lowest_;
  }
  void use_once_more(std::uint32_t block) {
    const std::uint32_t from = blocks_[block].list;
    if (from == released) return move(block, used_once());
    const std::uint32_t uses = lists_[from].uses + 1;
    std::uint32_t to = lists_[from].higher;
    if (to == nobody || lists_[to].uses != uses) to = new_list(uses, from, to);
    move(block, to);
  }
  std::uint32_t new_list(std::uint32_t uses, std::uint32_t lower, std::uint32_t higher) {
    std::uint32_t list = free_list_;
    if (list != nobody) {
      free_list_ = lists_[list].higher;
    } else {
      list = static_cast<std::uint32_t>(lists_.size());
      lists_.emplace_back();
    }
    lists_[list] = {nobody, nobody, 0, uses, lower, higher};
    if (lower != nobody) lists_[lower].higher = list;
    if (higher != nobody) lists_[higher].lower = list;
    return list;
  }
  void drop_list(std::uint32_t list) {
    const List of = lists_[list];
    (of.lower == nobody ? lowest_ : lists_[of.lower].higher) = of.higher;
    if (of.higher != nobody) lists_[of.higher].lower = of.lower;
    lists_[list].higher = free_list_;
    free_list_ = list;
  }

  // ARC ---------------------------------------------------------------------------------------------------------------

  bool touch_ghost(BlockKey key) {
    const std::uint32_t list = ghosts_.list_of(key);
    if (list == Ghosts::none) return false;
    target_ = ghosts_.learn(target_, list, capacity_);
    ghosts_.remove(key);
    ghosts_.add(list, key);
    return true;
  }
  /// The list that loses a block next.
  [[nodiscard]] std::uint32_t losing_list(std::size_t target) const {
    // The target may be more than all blocks, if the tier has just become smaller.
    return lists_[once].count > 0 && (lists_[once].count >= target || lists_[often].count == 0) ? once : often;
  }
  template <class Evicted>
  void evict_and_remember(std::uint32_t block, Evicted& evicted) {
    const std::uint32_t list = blocks_[block].list;
    if (list == released) return evict(block, evicted);
    ghosts_.add(list, blocks_[block].key());
    if (ghosts_.count(list) > capacity_) ghosts_.drop_oldest(list);
    evict(block, evicted);
  }
  template <class Evicted>
  std::size_t store_or_none(std::span<const BlockKey> keys, Evicted& evicted) {
    const auto [held, remembered] = touch_held(keys);
    // This request's blocks stay: they are the most recent of the second list, since they have just been touched.
    const std::size_t wanted = keys.size() - held;
    const std::size_t missing = size_ + wanted > capacity_ ? size_ + wanted - capacity_ : 0;
    const std::size_t from_released = std::min(missing, lists_[released].count);
    const auto target = static_cast<std::size_t>(target_);
    const std::size_t from_once =
        lists_[once].count >= target
            ? std::min(lists_[once].count, lists_[once].count - target + (target > 0 ? 1u : 0u))
            : 0;
    if (wanted > 0 && missing > from_released + from_once + (lists_[often].count - held)) return 0;
    for (std::size_t i = 0; i < missing; ++i)
      evict_and_remember(lists_[i < from_released ? std::uint32_t{released} : losing_list(target)].oldest, evicted);
    for (const BlockKey key : keys) {
      if (held > 0 && block_of(key) != nobody) continue;
      if (remembered) ghosts_.remove(key);
      insert(key, once);
    }
    return wanted;
  }

  // Worth: a heap of the leaves, the least worthy on top --------------------------------------------------------------

  std::uint32_t& place(std::uint32_t block) { return blocks_[block].older; }
  [[nodiscard]] HeapPlaces places() { return {&blocks_}; }
  [[nodiscard]] LeafHeap::Leaf leaf_of(std::uint32_t block) const {
    return {worth_[block], blocks_[block].newer, block};
  }
  void add_leaf(std::uint32_t block) { heap_.add(leaf_of(block), places()); }
  void remove_leaf(std::uint32_t block) { heap_.remove(std::exchange(place(block), nobody), places()); }
  /// A leaf's neighbour in the tree takes its place: they are about as worthy, so that little moves.
  void replace_leaf(std::uint32_t leaf, std::uint32_t by) {
    const std::uint32_t at = std::exchange(place(leaf), nobody);
    at == set_aside ? add_leaf(by) : heap_.move(at, leaf_of(by), places());
  }
  template <class Evicted, class WorthOf>
  std::size_t store_by_worth(std::span<const BlockKey> keys, BlockKey previous, Evicted& evicted, WorthOf& worth_of) {
    if (keys.empty()) return 0;
    std::uint32_t parent = nobody;
    if (previous != BlockKey{}) {
      parent = block_of(previous);
      if (parent == nobody) {
        if (size_ == capacity_ && !make_room(nobody, worth_of(0), evicted)) return 0;
        parent = new_leaf(previous, nobody);
        place(parent) = not_held;
      }
    }
    const std::uint32_t root = parent != nobody && place(parent) == not_held ? parent : nobody;
    if (root != nobody) ++followers_[root]; // it stays until these blocks follow it
    std::size_t stored = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i + ahead < keys.size()) index_.prefetch(keys[i + ahead]);
      std::uint32_t block = block_of(keys[i]);
      if (block == nobody) {
        if (size_ == capacity_ && !make_room(parent, worth_of(i), evicted)) break; // nothing worth less is left
        block = new_leaf(keys[i], parent);
        ++stored;
        weigh(block, worth_of(i));
        if (parent != nobody && followers_[parent]++ == 0)
          replace_leaf(parent, block);
        else
          add_leaf(block);
      } else if (place(block) == not_held) { // its successors have kept its place
        place(block) = nobody;
        blocks_[block].list = parent;
        ++stored;
        weigh(block, worth_of(i));
        if (parent != nobody && followers_[parent]++ == 0)
          place(parent) == set_aside ? void(place(parent) = nobody) : remove_leaf(parent);
      } else {
        weigh(block, worth_of(i));
        if (place(block) < set_aside) heap_.move(place(block), leaf_of(block), places());
      }
      parent = block;
    }
    if (root != nobody && --followers_[root] == 0) drop(root);
    return stored;
  }
  std::uint32_t new_leaf(BlockKey key, std::uint32_t parent) {
    const std::uint32_t block = new_block(key);
    worth_.resize(blocks_.size());
    followers_.resize(blocks_.size());
    followers_[block] = 0;
    blocks_[block].list = parent;
    ++size_;
    return block;
  }
  void weigh(std::uint32_t block, double worth) {
    worth_[block] = worth;
    blocks_[block].newer = time_;
  }
  void drop(std::uint32_t block) {
    free_block(block);
    --size_;
  }
  /// Evicts the least worthy leaf, unless it is `keep` (the block before the new one) or worth more than the new block.
  template <class Evicted>
  bool make_room(std::uint32_t keep, double worth, Evicted& evicted) {
    const LeafHeap::Leaf* const leaf = heap_.least_but(keep);
    if (leaf == nullptr || leaf->worth > worth) return false;
    const std::uint32_t least = leaf->block;
    const std::uint32_t parent = blocks_[least].list;
    const BlockKey key = blocks_[least].key();
    std::uint32_t coming = parent; // most likely the next to be evicted, as in `evict`
    for (std::size_t i = 0; i < ahead / 2 && coming != nobody; ++i) coming = blocks_[coming].list;
    if (coming != nobody) index_.prefetch(blocks_[coming].key());
    if (parent != nobody && --followers_[parent] == 0 && place(parent) != not_held) {
      replace_leaf(least, parent);
    } else {
      remove_leaf(least);
      if (parent != nobody && followers_[parent] == 0) drop(parent);
    }
    drop(least);
    evicted(key);
    return true;
  }

  std::vector<Block> blocks_;
  std::vector<double> worth_;            ///< by block
  std::vector<std::uint32_t> followers_; ///< by block, with worth: how many blocks of the tree follow it
  LeafHeap heap_;
  std::vector<List> lists_;
  KeyIndex index_;
  BlocksAside aside_;
  Ghosts ghosts_;
  std::size_t capacity_ = 0, size_ = 0;
  double target_ = 0; ///< ARC: how many blocks used once may stay
  std::uint32_t free_ = nobody, free_list_ = nobody;
  std::uint32_t lowest_ = nobody; ///< LFU: the list of the least used blocks
  std::uint32_t time_ = 0;        ///< requests so far
  Replacement replacement_ = Replacement::least_recent;
};

} // namespace sluice
