// SPDX-License-Identifier: Apache-2.0
// PrefixCache: compared with a plain reference, including its rules for eviction.
#include "sluice/core/random.hpp"
#include "sluice/state/memory/prefix_cache.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <list>
#include <map>
#include <span>
#include <vector>

using namespace sluice;

namespace {

std::vector<BlockKey> keys_of(std::uint64_t content, std::size_t count) {
  std::vector<BlockKey> keys;
  BlockKey key{};
  for (std::size_t i = 0; i < count; ++i) keys.push_back(key = next_key(key, content * 1000 + i));
  return keys;
}

/// The same rules with plain lists and maps.
class PlainCache {
 public:
  explicit PlainCache(int blocks) : holders_(static_cast<std::size_t>(blocks)), key_(holders_.size()) {
    for (int i = 0; i < blocks; ++i) line_.push_back(i);
  }
  std::size_t free() const { return line_.size(); }
  std::size_t find(const std::vector<BlockKey>& keys) const {
    std::size_t n = 0;
    while (n < keys.size() && by_key_.count(keys[n]) > 0) ++n;
    return n;
  }
  bool has(BlockKey key) const { return by_key_.count(key) > 0; }
  std::size_t held(const std::vector<BlockKey>& keys) const {
    return static_cast<std::size_t>(
        std::count_if(keys.begin(), keys.end(), [this](BlockKey key) { return holders(by_key_.at(key)) > 0; }));
  }
  void attach(std::vector<int>& table, const std::vector<BlockKey>& keys) {
    for (const BlockKey key : keys) {
      const int block = by_key_.at(key);
      if (holders(block)++ == 0) line_.remove(block);
      table.push_back(block);
    }
  }
  void extend(std::vector<int>& table, std::size_t count) {
    for (; count > 0; --count) {
      const int block = line_.front();
      line_.pop_front();
      for (auto it = by_key_.begin(); it != by_key_.end();)
        it = it->second == block ? by_key_.erase(it) : std::next(it);
      holders(block) = 1;
      table.push_back(block);
    }
  }
  void seal(const std::vector<int>& table, std::size_t sealed, const std::vector<BlockKey>& keys) {
    for (std::size_t i = sealed; i < keys.size(); ++i) { // a block that got no name then gets none later
      const bool named = std::any_of(by_key_.begin(), by_key_.end(), [&](auto& e) { return e.second == table[i]; });
      if (!named) by_key_.emplace(keys[i], table[i]);
    }
  }
  void release(std::vector<int>& table) {
    for (auto block = table.rbegin(); block != table.rend(); ++block)
      if (--holders(*block) == 0) line_.push_back(*block);
    table.clear();
  }

 private:
  int& holders(int block) { return holders_[static_cast<std::size_t>(block)]; }
  const int& holders(int block) const { return holders_[static_cast<std::size_t>(block)]; }

  std::vector<int> holders_;
  std::vector<BlockKey> key_;
  std::list<int> line_;
  std::map<BlockKey, int> by_key_;
};

} // namespace

TEST_CASE("released blocks are found until they are reused, which starts with the last block") {
  PrefixCache cache(TokenBlocks{10});
  const std::vector<BlockKey> keys = keys_of(1, 6);
  PrefixCache::Table one;
  cache.extend(one, 6);
  cache.seal(one, keys);
  cache.release(one);
  CHECK(cache.free() == TokenBlocks{10});
  CHECK(cache.find(keys) == 6);

  PrefixCache::Table other;
  cache.extend(other, 4); // the blocks that were never filled
  CHECK(cache.find(keys) == 6);
  cache.extend(other, 2);
  CHECK(cache.find(keys) == 4);

  cache.attach(one, std::span(keys).first(4));
  CHECK(cache.free() == TokenBlocks{0});
  CHECK(one.blocks.size() == 4);
}

TEST_CASE("a prefix that two requests share is stored once") {
  PrefixCache cache(TokenBlocks{8});
  const std::vector<BlockKey> keys = keys_of(7, 3);
  PrefixCache::Table one, other;
  cache.extend(one, 4);
  cache.seal(one, keys);
  CHECK(cache.find(keys) == 3);
  CHECK(cache.find_held(keys).held == 3);
  cache.attach(other, keys);
  CHECK(cache.free() == TokenBlocks{4});
  cache.release(one);
  CHECK(cache.free() == TokenBlocks{5}); // the other still uses three
  CHECK(cache.find_held(keys).held == 3);
  cache.release(other);
  CHECK(cache.free() == TokenBlocks{8});
  CHECK(cache.find_held(keys).held == 0);
  CHECK(cache.find(keys) == 3);
}

TEST_CASE("a key stays with the first block that had it") {
  PrefixCache cache(TokenBlocks{4});
  const std::vector<BlockKey> keys = keys_of(9, 1);
  PrefixCache::Table one, other;
  cache.extend(one, 1);
  cache.extend(other, 1);
  cache.seal(one, keys);
  cache.seal(other, keys); // computed twice, because neither existed when the other started
  cache.release(other);
  CHECK(cache.find_held(keys).held == 1);
}

TEST_CASE("random requests: found, held and free blocks agree with the plain reference") {
  Random random(5);
  std::size_t all_found = 0;
  for (int round = 0; round < 60; ++round) {
    const auto size = static_cast<int>(random.below(60) + 8);
    const bool each = round % 2 == 1;
    PrefixCache cache(TokenBlocks{size}, each);
    PlainCache plain(size);
    struct Request {
      std::vector<BlockKey> keys;
      PrefixCache::Table table;
      std::vector<int> plain;
    };
    std::vector<Request> requests(12);
    const auto some_keys = [&random] { // many share a prefix, and part at one of its blocks
      std::vector<BlockKey> keys = keys_of(random.below(3), random.below(6) + 1);
      BlockKey key = keys.back();
      for (std::uint64_t i = random.below(8); i > 0; --i) keys.push_back(key = next_key(key, random.below(2)));
      return keys;
    };
    for (Request& request : requests) request.keys = some_keys();
    for (int step = 0; step < 500; ++step) {
      Request& request = requests[random.below(requests.size())];
      const std::vector<BlockKey>& keys = request.keys;
      if (!request.table.blocks.empty() && random.below(3) == 0) {
        cache.release(request.table);
        plain.release(request.plain);
        request.keys = some_keys();
      } else if (request.table.blocks.empty()) {
        const std::size_t found = cache.find(keys);
        REQUIRE(found == plain.find(keys));
        const std::vector<BlockKey> first(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(found));
        REQUIRE(cache.find_held(keys).blocks == found);
        REQUIRE(cache.find_held(keys).held == plain.held(first));
        cache.attach(request.table, first);
        plain.attach(request.plain, first);
        all_found += found;
      }
      if (request.table.blocks.size() < keys.size() && cache.free().count() > 0) {
        const auto most =
            std::min(keys.size() - request.table.blocks.size(), static_cast<std::size_t>(cache.free().count()));
        const std::size_t count = random.below(most) + 1;
        cache.extend(request.table, count);
        plain.extend(request.plain, count);
        const std::vector<BlockKey> full(keys.begin(),
                                         keys.begin() + static_cast<std::ptrdiff_t>(request.table.blocks.size()));
        plain.seal(request.plain, request.table.sealed, full);
        cache.seal(request.table, full);
      }
      REQUIRE(cache.free() == TokenBlocks{plain.free()});
      for (const Request& one : requests) {
        REQUIRE(cache.find(one.keys) == plain.find(one.keys));
        for (const BlockKey key : one.keys)
          if (each) REQUIRE(cache.has(key) == plain.has(key));
      }
    }
  }
  CHECK(all_found > 500); // otherwise the test would check little
}

TEST_CASE("what requests free together, beside what others find, is what a copy of the cache frees") {
  Random random(23);
  std::int64_t kept = 0;
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    PrefixCache cache(TokenBlocks{60});
    std::vector<PrefixCache::Table> tables;
    for (std::uint64_t request = 0; request < 6; ++request) {
      const std::vector<BlockKey> keys = keys_of(random.below(3), 1 + random.below(9));
      PrefixCache::Table& table = tables.emplace_back();
      cache.attach(table, std::span(keys).first(cache.find(keys)));
      cache.extend(table, keys.size() - table.blocks.size());
      cache.seal(table, keys);
      if (random.below(4) == 0) cache.release(table);
    }
    std::vector<std::uint32_t> given, taken;
    std::vector<std::vector<BlockKey>> joins;
    for (std::uint64_t join = random.below(4); join > 0; --join) {
      std::vector<BlockKey> keys = keys_of(random.below(3), 1 + random.below(9));
      keys.resize(cache.find(keys));
      cache.add_found(keys, taken);
      joins.push_back(keys);
    }
    PrefixCache after = cache, without = cache; // without those that leave
    std::vector<PrefixCache::Table> leaving = tables;
    std::int64_t all = 0;
    const std::uint64_t leave = random.below(7);
    for (std::size_t request = 0; request < leave; ++request) {
      given.insert(given.end(), tables[request].blocks.begin(), tables[request].blocks.end());
      all += static_cast<std::int64_t>(tables[request].blocks.size());
      after.release(leaving[request]);
    }
    for (const std::vector<BlockKey>& keys : joins) {
      PrefixCache::Table one, other;
      after.attach(one, keys);
      without.attach(other, keys);
    }
    const std::int64_t freed = cache.freed(given, taken);
    CHECK(freed == (after.free() - without.free()).count());
    kept += all - freed;
  }
  CHECK(kept > 500);
}

TEST_CASE("a cache that shrinks forgets what was released longest ago, and grows beyond its first size") {
  PrefixCache cache(TokenBlocks{10});
  PrefixCache::Table held, old, newer;
  const std::vector<BlockKey> of_old = keys_of(1, 3), of_newer = keys_of(2, 4);
  cache.extend(held, 3);
  cache.extend(old, 3);
  cache.seal(old, of_old);
  cache.extend(newer, 4);
  cache.seal(newer, of_newer);
  cache.release(old);
  cache.release(newer);
  cache.resize(TokenBlocks{7});
  CHECK(cache.free() == TokenBlocks{4});
  CHECK(cache.find(of_old) == 0);
  CHECK(cache.find(of_newer) == 4);
  cache.resize(TokenBlocks{500});
  CHECK(cache.free() == TokenBlocks{497});
  CHECK(cache.find(of_newer) == 4); // blank blocks are taken before it
  PrefixCache::Table many;
  const std::vector<BlockKey> of_many = keys_of(3, 493);
  cache.extend(many, of_many.size());
  cache.seal(many, of_many);
  CHECK(cache.find(of_many) == of_many.size());
  CHECK(cache.find(of_newer) == 4);
  cache.release(many);
  cache.resize(TokenBlocks{3});
  CHECK(cache.free() == TokenBlocks{0});
  CHECK(cache.find(of_many) + cache.find(of_newer) == 0);
}
