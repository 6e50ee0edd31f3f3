// SPDX-License-Identifier: Apache-2.0
// TierStore against naive stores, written from each rule's source.
#include "sluice/core/random.hpp"
#include "sluice/state/memory/belady.hpp"
#include "sluice/state/memory/tier_store.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <set>
#include <span>
#include <vector>

using namespace sluice;

namespace {

using Keys = std::vector<BlockKey>;

/// A request's keys: a path from the root of a random tree with `branches` children per node.
Keys random_path(Random& random, std::uint64_t branches, std::uint64_t depth) {
  Keys keys;
  BlockKey key{};
  for (std::uint64_t i = 1 + random.below(depth); i > 0; --i)
    keys.push_back(key = next_key(key, random.below(branches)));
  return keys;
}

bool in(const std::list<BlockKey>& list, BlockKey key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

/// LRU: the most recently used blocks, where a request uses its last block first.
struct NaiveLru {
  std::size_t capacity;
  std::list<BlockKey> blocks{}; ///< the least recent first

  bool holds(BlockKey key) const { return in(blocks, key); }
  std::size_t store(Keys keys) {
    keys.resize(std::min(keys.size(), capacity));
    std::size_t stored = 0;
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
      stored += holds(*key) ? 0u : 1u;
      blocks.remove(*key);
      blocks.push_back(*key);
    }
    while (blocks.size() > capacity) blocks.pop_front();
    return stored;
  }
  void touch(const Keys& keys) {
    for (auto key = keys.rbegin(); key != keys.rend(); ++key)
      if (holds(*key)) blocks.splice(blocks.end(), blocks, std::find(blocks.begin(), blocks.end(), *key));
  }
  void remove(BlockKey key) { blocks.remove(key); }
  /// The block that leaves next, of those that are not pinned; 0: there is none.
  BlockKey next(const std::set<BlockKey>& pinned) const {
    const auto found = std::find_if(blocks.begin(), blocks.end(), [&](BlockKey key) { return pinned.count(key) == 0; });
    return found == blocks.end() ? BlockKey{} : *found;
  }
};

/// LFU, block by block: evicts the fewest uses, among equals the longest unused.
struct NaiveLfu {
  std::size_t capacity;
  std::map<BlockKey, std::pair<int, int>> blocks{}; ///< uses, last use
  int time = 0;

  bool holds(BlockKey key) const { return blocks.count(key) > 0; }
  std::size_t store(Keys keys) {
    keys.resize(std::min(keys.size(), capacity));
    std::reverse(keys.begin(), keys.end());
    std::size_t stored = 0;
    for (const BlockKey key : keys) {
      if (!holds(key)) {
        if (blocks.size() == capacity)
          blocks.erase(std::min_element(blocks.begin(), blocks.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; }));
        ++stored;
      }
      ++blocks[key].first;
      blocks[key].second = ++time;
    }
    return stored;
  }
  void touch(const Keys& keys) {
    for (auto key = keys.rbegin(); key != keys.rend(); ++key)
      if (const auto block = blocks.find(*key); block != blocks.end())
        block->second = {block->second.first + 1, ++time};
  }
  void remove(BlockKey key) { blocks.erase(key); }
  BlockKey next(const std::set<BlockKey>& pinned) const {
    auto least = blocks.end();
    for (auto block = blocks.begin(); block != blocks.end(); ++block)
      if (pinned.count(block->first) == 0 && (least == blocks.end() || block->second < least->second)) least = block;
    return least == blocks.end() ? BlockKey{} : least->first;
  }
};

/// ARC as vLLM's offloading manager: `touch`, then `prepare_store`, which evicts one block after the other from the
/// list that the target says, or the whole store is given up.
struct NaiveArc {
  std::size_t capacity;
  std::list<BlockKey> t1{}, t2{}, b1{}, b2{};
  double target = 0;

  bool holds(BlockKey key) const { return in(t1, key) || in(t2, key); }
  void remove(BlockKey key) {
    t1.remove(key);
    t2.remove(key);
  }
  /// As `next` of the others, from the list that the target says, if one of its blocks may leave.
  BlockKey next(const std::set<BlockKey>& pinned) const {
    const bool first = !t1.empty() && (t1.size() >= static_cast<std::size_t>(target) || t2.empty());
    for (const auto* list : {first ? &t1 : &t2, first ? &t2 : &t1})
      for (const BlockKey key : *list)
        if (pinned.count(key) == 0) return key;
    return BlockKey{};
  }
  void evict(BlockKey key) {
    std::list<BlockKey>& gone = in(t1, key) ? b1 : b2;
    gone.push_back(key);
    if (gone.size() > capacity) gone.pop_front();
    remove(key);
  }
  void touch(const Keys& keys) {
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
      const double one = static_cast<double>(b1.size()), two = static_cast<double>(b2.size());
      if (holds(*key)) {
        t1.remove(*key);
        t2.remove(*key);
        t2.push_back(*key);
      } else if (in(b1, *key)) {
        target = std::min(target + std::max(1.0, two / one), static_cast<double>(capacity));
        b1.remove(*key);
        b1.push_back(*key);
      } else if (in(b2, *key)) {
        target = std::max(target - std::max(1.0, one / two), 0.0);
        b2.remove(*key);
        b2.push_back(*key);
      }
    }
  }
  std::size_t store(const Keys& keys) {
    touch(keys);
    Keys wanted;
    for (const BlockKey key : keys)
      if (!holds(key)) wanted.push_back(key);
    std::list<BlockKey> once = t1, often = t2, gone_once = b1, gone_often = b2;
    bool possible = true;
    const auto first_free = [&](std::list<BlockKey>& of) {
      return std::find_if(of.begin(), of.end(),
                          [&](BlockKey key) { return std::find(keys.begin(), keys.end(), key) == keys.end(); });
    };
    while (possible && once.size() + often.size() + wanted.size() > capacity) {
      const bool first = once.size() >= static_cast<std::size_t>(target) && first_free(once) != once.end();
      std::list<BlockKey>& from = first ? once : often;
      const auto victim = first_free(from);
      possible = victim != from.end();
      if (!possible) break;
      (first ? gone_once : gone_often).push_back(*victim);
      from.erase(victim);
    }
    if (possible) {
      t1 = once;
      t2 = often;
      b1 = gone_once;
      b2 = gone_often;
    }
    while (b1.size() > capacity) b1.pop_front();
    while (b2.size() > capacity) b2.pop_front();
    if (!possible) return 0;
    for (const BlockKey key : wanted) {
      b1.remove(key);
      b2.remove(key);
      t1.push_back(key);
    }
    return wanted.size();
  }
};

template <class Naive>
void compare(Replacement replacement) {
  std::size_t hits = 0, evictions = 0, refused = 0, removed = 0, single = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const std::size_t capacity = random.below(30);
    const std::uint64_t branches = 1 + random.below(4), depth = 1 + random.below(12);
    TierStore store(TokenBlocks{static_cast<std::int64_t>(capacity)}, replacement);
    Naive naive{capacity};
    std::set<BlockKey> held, all;
    for (int request = 0; request < 120; ++request) {
      const Keys keys = random_path(random, branches, depth);
      std::size_t found = 0;
      while (found < keys.size() && naive.holds(keys[found])) ++found;
      CHECK(store.find(keys) == found);
      hits += found;
      all.insert(keys.begin(), keys.end());
      const auto evicted = [&](BlockKey key) {
        ++evictions;
        CHECK(all.count(key) == 1);
      };
      switch (random.below(8)) { // as another tier uses it
      case 0:
        store.touch(keys);
        naive.touch(keys);
        break;
      case 1: {
        const std::size_t from = random.below(keys.size() + 1);
        for (std::size_t i = from; i < keys.size(); ++i) {
          removed += naive.holds(keys[i]) ? 1u : 0u;
          naive.remove(keys[i]);
        }
        store.remove(std::span<const BlockKey>(keys).subspan(from));
        break;
      }
      case 2: {
        const BlockKey key = keys[random.below(keys.size())];
        const bool touched = random.below(2) == 0, is_new = !naive.holds(key);
        const bool stored = (touched || is_new) && naive.store({key}) > 0;
        CHECK(store.store_one(key, touched, evicted) == stored);
        single += stored ? 1u : 0u;
        break;
      }
      default: {
        const std::size_t stored = store.store(keys, evicted);
        CHECK(stored == naive.store(keys));
        refused += stored == 0 && found < keys.size() ? 1u : 0u;
      }
      }
      held.clear();
      for (const BlockKey key : all) {
        CHECK(store.holds(key) == naive.holds(key));
        if (store.holds(key)) held.insert(key);
      }
      CHECK(store.size() == held.size());
      CHECK(store.size() <= capacity);
    }
  }
  CHECK(hits > 1000);
  CHECK(evictions > 1000);
  CHECK(removed > 100);
  CHECK(single > 100);
  if (replacement == Replacement::adaptive) CHECK(refused > 10);
}

} // namespace

TEST_CASE("LRU holds what a naive list holds") { compare<NaiveLru>(Replacement::least_recent); }
TEST_CASE("LFU holds what a naive table of uses holds") { compare<NaiveLfu>(Replacement::least_frequent); }
TEST_CASE("ARC holds what vLLM's four lists hold") { compare<NaiveArc>(Replacement::adaptive); }

TEST_CASE("with LRU and with worth every held block's predecessor is held") {
  for (const Replacement replacement : {Replacement::least_recent, Replacement::least_worth})
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      Random random(seed);
      TierStore store(TokenBlocks{random.below(20)}, replacement);
      std::map<BlockKey, BlockKey> before;
      for (int request = 0; request < 100; ++request) {
        const Keys keys = random_path(random, 3, 8);
        for (std::size_t i = 1; i < keys.size(); ++i) before[keys[i]] = keys[i - 1];
        std::vector<double> worth(keys.size());
        for (double& one : worth) one = static_cast<double>(random.below(5));
        store.store(keys, TierStore::Forget{}, [&](std::size_t i) { return worth[i]; });
        for (const auto& [key, predecessor] : before)
          if (store.holds(key)) CHECK(store.holds(predecessor));
        CHECK(store.size() <= store.capacity());
      }
    }
}

TEST_CASE("with worth no block leaves before one that follows it, whichever part of a request is stored first") {
  std::int64_t left = 0, later = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    TierStore store(TokenBlocks{2 + random.below(20)}, Replacement::least_worth);
    std::map<BlockKey, BlockKey> before;
    for (int request = 0; request < 100; ++request) {
      const Keys keys = random_path(random, 2, 6);
      for (std::size_t i = 1; i < keys.size(); ++i) before[keys[i]] = keys[i - 1];
      const std::size_t from = random.below(keys.size()); // of the blocks before these only the device may have some
      const std::span<const BlockKey> some = std::span<const BlockKey>(keys).subspan(from);
      later += from > 0 && !store.holds(keys[from - 1]) ? 1 : 0;
      const auto evicted = [&](BlockKey key) {
        ++left;
        CHECK_FALSE(store.holds(key));
        for (const auto& [child, parent] : before)
          if (parent == key) CHECK_FALSE(store.holds(child));
      };
      const auto worth_of = [&](std::size_t) { return static_cast<double>(random.below(5)); };
      const std::size_t stored = store.store(some, evicted, worth_of, from > 0 ? keys[from - 1] : BlockKey{});
      CHECK(stored <= some.size());
      CHECK(store.size() <= store.capacity());
    }
  }
  CHECK(left > 1000);
  CHECK(later > 500);
}

TEST_CASE("the least worthy leaf leaves, and a block that is worth less than all leaves is not stored") {
  TierStore store(TokenBlocks{3}, Replacement::least_worth);
  const auto path = [](std::uint64_t topic, std::size_t length) {
    Keys keys;
    BlockKey key{};
    for (std::size_t i = 0; i < length; ++i) keys.push_back(key = next_key(key, 10 * topic + i));
    return keys;
  };
  const auto store_with = [&](const Keys& keys, double worth) {
    return store.store(keys, TierStore::Forget{}, [worth](std::size_t) { return worth; });
  };
  const Keys a = path(1, 2), b = path(2, 1), c = path(3, 1);
  CHECK(store_with(a, 5) == 2);
  CHECK(store_with(b, 1) == 1);
  CHECK(store_with(c, 0.5) == 0); // all leaves are worth more
  CHECK(store_with(c, 2) == 1);   // b leaves
  CHECK_FALSE(store.holds(b[0]));
  CHECK(store_with(b, 6) == 1); // c leaves: a's first block is no leaf
  CHECK(store.holds(a[0]));
  CHECK(store.holds(a[1]));
  CHECK(store_with(c, 6) == 1); // then a's last one, which leaves a's first one as a leaf
  CHECK(store.holds(a[0]));
  CHECK_FALSE(store.holds(a[1]));
}

TEST_CASE("ARC evicts blocks that were used once if it has no others, although its target would keep them") {
  // A path of one block each: 5 takes the place of 1, whose return raises the target, and so on.
  const auto key = [](std::uint64_t i) { return next_key(BlockKey{}, i); };
  TierStore store(TokenBlocks{4}, Replacement::adaptive);
  for (const std::uint64_t i : {1U, 2U, 3U, 4U, 5U, 1U, 2U, 3U, 4U}) {
    const Keys one{key(i)};
    CHECK(store.store(one) == 1);
  }
  Keys evicted;
  store.limit(TokenBlocks{2}, [&](BlockKey one) { evicted.push_back(one); });
  CHECK(evicted == Keys{key(1), key(2)});
  CHECK(store.size() == 2);
  CHECK(store.holds(key(3)));
  CHECK(store.holds(key(4)));
}

TEST_CASE("a store that becomes smaller and larger evicts the excess and loses nothing else") {
  for (const Replacement replacement :
       {Replacement::least_recent, Replacement::least_frequent, Replacement::adaptive, Replacement::least_worth}) {
    CAPTURE(static_cast<int>(replacement));
    std::size_t excess = 0, hits = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      Random random(seed);
      const std::uint64_t most = random.below(30), branches = 1 + random.below(4), depth = 1 + random.below(8);
      TierStore store(TokenBlocks{static_cast<std::int64_t>(most)}, replacement);
      std::set<BlockKey> held, all;
      for (int turn = 0; turn < 120; ++turn) {
        const Keys keys = random_path(random, branches, depth);
        const std::size_t size = store.size();
        std::size_t stored = 0, evictions = 0;
        std::set<BlockKey> allowed = held, evicted;
        const auto evict = [&](BlockKey key) {
          ++evictions;
          evicted.insert(key);
        };
        if (random.below(3) == 0) {
          const auto room = static_cast<std::int64_t>(random.below(most + 1));
          store.limit(TokenBlocks{room}, evict);
          CHECK(store.capacity() == static_cast<std::size_t>(room));
          excess += evictions;
          if (replacement != Replacement::least_worth) CHECK(store.size() == std::min(size, store.capacity()));
        } else {
          hits += store.find(keys);
          stored = store.store(keys, evict, [&](std::size_t) { return static_cast<double>(random.below(5)); });
          allowed.insert(keys.begin(), keys.end());
        }
        all.insert(keys.begin(), keys.end());
        CHECK(store.size() <= store.capacity());
        std::set<BlockKey> now;
        for (const BlockKey key : all) {
          if (store.holds(key)) {
            now.insert(key);
            CHECK(allowed.count(key) == 1);
          } else if (held.count(key) == 1) {
            CHECK(evicted.count(key) == 1);
          }
        }
        if (replacement != Replacement::least_worth) { // whose places of absent blocks count
          CHECK(store.size() == now.size());
          CHECK(store.size() + evictions == size + stored);
        }
        held = now;
      }
    }
    CHECK(excess > 500);
    CHECK(hits > 500);
  }
}

TEST_CASE("two tiers: inclusive hosts repeat one LRU of their size, exclusive ones one of both sizes") {
  std::int64_t host_hits = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const auto device = static_cast<std::int64_t>(8 + random.below(8));
    const auto host = static_cast<std::int64_t>(8 + device + static_cast<std::int64_t>(random.below(30)));
    UntimedTiers inclusive(TokenBlocks{device}, TokenBlocks{host}, HostCopies::inclusive);
    UntimedTiers exclusive(TokenBlocks{device}, TokenBlocks{host}, HostCopies::exclusive);
    UntimedTiers back(TokenBlocks{device}, TokenBlocks{host}, HostCopies::write_back);
    TierStore one(TokenBlocks{host}, Replacement::least_recent),
        both(TokenBlocks{device + host}, Replacement::least_recent);
    std::int64_t in_one = 0, in_both = 0;
    for (int request = 0; request < 200; ++request) {
      const Keys keys = random_path(random, 3, 7); // shorter than the device
      in_one += static_cast<std::int64_t>(one.find(keys));
      in_both += static_cast<std::int64_t>(both.find(keys));
      one.store(keys);
      both.store(keys);
      for (UntimedTiers* tiers : {&inclusive, &exclusive, &back}) tiers->serve(keys, keys.size());
    }
    CHECK(inclusive.device_hits() + inclusive.host_hits() == in_one);
    CHECK(exclusive.device_hits() + exclusive.host_hits() == in_both);
    CHECK(inclusive.device_hits() == back.device_hits());
    CHECK(back.written() <= exclusive.written());
    host_hits += inclusive.host_hits();
  }
  CHECK(host_hits > 1000);
}

TEST_CASE("a store without a size holds nothing and takes nothing") {
  const Keys keys{next_key(BlockKey{}, 1), next_key(BlockKey{}, 2)};
  CHECK(KeyIndex{}.find(keys[0], [](std::uint32_t) { return BlockKey{}; }) == KeyIndex::nobody);
  TierStore none;
  CHECK_FALSE(none.holds(keys[0]));
  CHECK(none.find(keys) == 0);
  CHECK(none.store(keys) == 0);
  CHECK_FALSE(none.store_one(keys[1], true));
  none.touch(keys);
  none.remove(keys);
  CHECK(none.size() == 0);
}

namespace {

/// Blocks are pinned, freed, used and stored one by one, in any order.
template <class Naive>
void compare_pinned(Replacement replacement) {
  std::size_t evictions = 0, full = 0, freed = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const std::size_t capacity = 1 + random.below(20);
    const std::uint64_t different = 2 * capacity + 1;
    TierStore store(TokenBlocks{static_cast<std::int64_t>(capacity)}, replacement);
    Naive naive{capacity};
    std::set<BlockKey> held, pinned;
    for (int step = 0; step < 1'500; ++step) {
      const BlockKey key = next_key(BlockKey{}, random.below(different));
      const bool holds = held.count(key) > 0;
      const std::uint64_t action = random.below(4);
      if (holds && action == 0) {
        pinned.insert(key);
      } else if (action == 1 && !pinned.empty()) {
        auto one = pinned.begin();
        std::advance(one, static_cast<std::ptrdiff_t>(random.below(pinned.size())));
        store.may_leave(*one);
        pinned.erase(one);
        ++freed;
      } else if (holds) {
        store.touch({&key, 1});
        naive.touch({key});
      } else {
        const BlockKey leaves = held.size() < capacity ? BlockKey{} : naive.next(pinned);
        const bool fits = held.size() < capacity || leaves != BlockKey{};
        Keys left;
        const auto stays = [&pinned](BlockKey one) { return pinned.count(one) > 0; };
        const auto evicted = [&left](BlockKey one) { left.push_back(one); };
        REQUIRE(store.make_room_for(1, 0, stays, evicted) == (fits ? 1 : 0));
        REQUIRE(left == (leaves == BlockKey{} ? Keys{} : Keys{leaves}));
        if (!fits) ++full;
        if (!fits) continue;
        if (leaves != BlockKey{}) {
          if constexpr (requires { naive.evict(leaves); })
            naive.evict(leaves);
          else
            naive.remove(leaves);
          held.erase(leaves);
          ++evictions;
        }
        CHECK(store.store({&key, 1}) == 1);
        CHECK(naive.store({key}) == 1);
        held.insert(key);
      }
      CHECK(store.size() == held.size());
    }
    for (const BlockKey one : held) CHECK(store.holds(one));
  }
  CHECK(evictions > 2'000);
  CHECK(full > 100);
  CHECK(freed > 1'000);
}

} // namespace

TEST_CASE("LRU evicts in the naive list's order, whichever blocks are pinned meanwhile") {
  compare_pinned<NaiveLru>(Replacement::least_recent);
}
TEST_CASE("LFU evicts in the naive table's order, whichever blocks are pinned meanwhile") {
  compare_pinned<NaiveLfu>(Replacement::least_frequent);
}
TEST_CASE("ARC evicts in the order of vLLM's lists, whichever blocks are pinned meanwhile") {
  compare_pinned<NaiveArc>(Replacement::adaptive);
}

TEST_CASE("making room asks once for each block that stays, however often others leave") {
  for (const Replacement replacement :
       {Replacement::least_recent, Replacement::least_frequent, Replacement::adaptive, Replacement::least_worth}) {
    CAPTURE(name(replacement));
    constexpr std::uint64_t staying = 500, leaving = 300;
    TierStore store(TokenBlocks{staying + leaving}, replacement);
    for (std::uint64_t i = 1; i <= staying + leaving; ++i) {
      const BlockKey key{i};
      store.store(
          {&key, 1}, [](BlockKey) {}, [i](std::size_t) { return static_cast<double>(i); });
    }
    std::uint64_t asked = 0, evicted = 0;
    const auto stays = [&asked](BlockKey key) { return ++asked, static_cast<std::uint64_t>(key) <= staying; };
    for (std::uint64_t more = 1; more <= leaving; ++more)
      CHECK(store.make_room_for(more, 1e9, stays, [&evicted](BlockKey) { ++evicted; }) == more);
    CHECK(evicted == leaving);
    CHECK(asked == staying + leaving);
    CHECK(store.make_room_for(leaving + 1, 1e9, stays, [&evicted](BlockKey) { ++evicted; }) == leaving);
    CHECK(evicted == leaving); // those that stay are all there, and leave when they may
    CHECK(asked == staying + leaving);
    for (std::uint64_t i = 1; i <= staying; ++i) store.may_leave(BlockKey{i});
    const auto nothing_stays = [](BlockKey) { return false; };
    CHECK(store.make_room_for(staying + leaving, 1e9, nothing_stays, [](BlockKey) {}) == staying + leaving);
  }
}

TEST_CASE("blocks that are to leave first are the next to leave, whatever was used before, and until they are used") {
  for (const Replacement replacement :
       {Replacement::least_recent, Replacement::least_frequent, Replacement::adaptive, Replacement::least_worth}) {
    CAPTURE(name(replacement));
    Random random(67);
    std::size_t checked = 0;
    const auto nothing_stays = [](BlockKey) { return false; };
    for (int round = 0; round < 300; ++round) {
      TierStore store(TokenBlocks{24}, replacement);
      Keys path;
      for (int request = 0; request < 60; ++request) {
        path = random_path(random, 3, 8);
        const double worth = random.uniform();
        store.store(path, TierStore::Forget{}, [worth](std::size_t) { return worth; });
      }
      Keys held;
      std::copy_if(path.begin(), path.end(), std::back_inserter(held), [&](BlockKey key) { return store.holds(key); });
      if (held.empty()) continue;
      std::set<BlockKey> released;
      Keys given_up;
      for (const BlockKey key : held)
        if (replacement != Replacement::least_worth || store.may_evict(key, 1)) given_up.push_back(key);
      store.leave_first(given_up, [](std::size_t) { return false; });
      released.insert(given_up.begin(), given_up.end());
      if (released.size() > 1 && random.below(2) == 0) { // one is used after all
        store.touch({given_up.data(), 1}, [](std::size_t) { return 2.0; });
        released.erase(given_up.front());
      }
      Keys left;
      const std::size_t before = store.size();
      const std::size_t room = store.capacity() - before + released.size();
      if (round % 2 == 0 || replacement == Replacement::least_worth) {
        CHECK(store.make_room_for(room, 1e9, nothing_stays, [&](BlockKey key) { left.push_back(key); }) == room);
      } else {
        Keys others; // stored at once, in the room of what leaves
        for (std::size_t i = 0; i < room; ++i) others.push_back(next_key(BlockKey{99}, i));
        CHECK(store.store(others, [&](BlockKey key) { left.push_back(key); }) == room);
      }
      REQUIRE(left.size() == released.size());
      for (const BlockKey key : left) CHECK(released.count(key) == 1);
      checked += left.size();
    }
    CHECK(checked >= 50);
  }
}

TEST_CASE("no block outlives one that is to leave first, whichever were pinned and used meanwhile") {
  for (const Replacement replacement :
       {Replacement::least_recent, Replacement::least_frequent, Replacement::adaptive, Replacement::least_worth}) {
    CAPTURE(name(replacement));
    std::size_t first = 0, others = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      Random random(seed);
      const std::size_t capacity = 2 + random.below(12);
      TierStore store(TokenBlocks{static_cast<std::int64_t>(capacity)}, replacement);
      std::set<BlockKey> held, pinned, leave_first;
      const auto any_of = [&random](const std::set<BlockKey>& keys) {
        return *std::next(keys.begin(), static_cast<std::ptrdiff_t>(random.below(keys.size())));
      };
      const auto stays = [&pinned](BlockKey key) { return pinned.count(key) > 0; };
      const auto leaves = [&](BlockKey key) {
        const bool waits =
            std::any_of(leave_first.begin(), leave_first.end(), [&](BlockKey one) { return !stays(one); });
        REQUIRE(leave_first.count(key) == (waits ? 1 : 0));
        ++(waits ? first : others);
        held.erase(key);
        leave_first.erase(key);
      };
      for (int step = 0; step < 800; ++step) {
        const BlockKey key = held.empty() ? BlockKey{} : any_of(held);
        switch (held.empty() ? 4 : random.below(8)) {
        case 0:
          if (leave_first.count(key) == 0) pinned.insert(key);
          break;
        case 1:
          if (pinned.empty()) break;
          pinned.erase(pinned.find(any_of(pinned)));
          for (const BlockKey one : held) // as after an unpin; only those that no longer stay
            if (!stays(one)) store.may_leave(one);
          break;
        case 2:
          if (!stays(key)) {
            store.leave_first({&key, 1}, [](std::size_t) { return false; });
            leave_first.insert(key);
          }
          break;
        case 3:
          store.touch({&key, 1}, [](std::size_t) { return 1.0; });
          leave_first.erase(key);
          break;
        default:
          const BlockKey next = next_key(BlockKey{}, random.below(3 * capacity));
          if (held.count(next) > 0 || store.make_room_for(1, 1, stays, leaves) == 0) break;
          store.store({&next, 1}, TierStore::Forget{}, [](std::size_t) { return 1.0; });
          held.insert(next);
        }
      }
    }
    CHECK(first > 1'000);
    CHECK(others > 1'000);
  }
}
