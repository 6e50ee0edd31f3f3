// SPDX-License-Identifier: Apache-2.0
// HostTier: which blocks it has, beside a list that does the same by its definition; host blocks with several holders.
#include "sluice/core/random.hpp"
#include "sluice/world/host_tier/host_tier.hpp"
#include "sluice/world/machine/device_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

constexpr int layers = 2;

std::vector<RecordKey> keys_of(const std::vector<std::int32_t>& tokens, std::uint64_t salt = 0) {
  std::vector<RecordKey> keys;
  prefix_keys(tokens, 4, salt, keys);
  return keys;
}

struct Stores {
  DeviceMemory memory{Bytes{1 << 20}};
  KvStore store;
  HostTier tier;
  explicit Stores(std::int64_t token_blocks)
      : store({2, 16, 4}, memory, LayerBlocks{token_blocks * layers}, 8),
        tier(store, layers, LayerBlocks{token_blocks * layers}) {}
  void add(const RecordKey& key) {
    REQUIRE(tier.reserve(1) == 1);
    std::vector<std::int32_t> host;
    for (int layer = 0; layer < layers; ++layer) host.push_back(store.take_host(-1));
    tier.add(key, std::move(host));
  }
};

} // namespace

TEST_CASE("keys: a block's names its tokens, all before them, and the salt") {
  Random random(1);
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  std::size_t keys = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<std::int32_t> tokens(12);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.below(1000));
    const std::vector<RecordKey> one = keys_of(tokens);
    REQUIRE(one.size() == 3);
    std::vector<std::int32_t> longer = tokens;
    longer.push_back(1);
    CHECK(keys_of(longer) == one); // its last block is not full
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      std::vector<std::int32_t> changed = tokens;
      changed[at] += 1;
      const std::vector<RecordKey> other = keys_of(changed);
      for (std::size_t block = 0; block < 3; ++block) CHECK((other[block] == one[block]) == (block < at / 4));
    }
    CHECK(keys_of(tokens, 1) != one);
    for (const RecordKey& key : one) seen.emplace(key.high, key.low);
    keys += one.size();
  }
  CHECK(seen.size() == keys);
}

TEST_CASE("the least recently used blocks leave, but no pinned one, and host blocks are given back once") {
  Random random(2);
  constexpr std::int64_t capacity = 12;
  Stores stores(capacity);
  std::vector<std::pair<RecordKey, int>> list; // the reference: the least recent first, with its pins
  const auto at = [&](const RecordKey& key) {
    return std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.first == key; });
  };
  for (int step = 0; step < 4'000; ++step) {
    const RecordKey key{random.below(30), 1};
    const auto found = at(key);
    CHECK(stores.tier.holds(key) == (found != list.end()));
    switch (random.below(3)) {
    case 0:
      if (found == list.end()) {
        const auto unpinned = std::find_if(list.begin(), list.end(), [](const auto& one) { return one.second == 0; });
        if (std::ssize(list) == capacity && unpinned == list.end()) {
          CHECK(stores.tier.reserve(1) == 0);
          break;
        }
        if (std::ssize(list) == capacity) list.erase(unpinned);
        stores.add(key);
        list.emplace_back(key, 0);
      } else {
        stores.tier.touch({&key, 1});
        std::rotate(found, found + 1, list.end());
      }
      break;
    case 1:
      if (found == list.end()) break;
      stores.tier.pin({&key, 1});
      ++found->second;
      break;
    default:
      if (found == list.end() || found->second == 0) break;
      stores.tier.unpin({&key, 1});
      --found->second;
    }
    CHECK(stores.tier.counts().blocks == std::ssize(list));
    CHECK(stores.store.host_used().count() == layers * std::ssize(list));
  }
  CHECK(stores.tier.counts().evicted > 100);
}

TEST_CASE("a block that a request shares stays until both have given it up") {
  Stores stores(1);
  const RecordKey key{1, 1}, other{2, 2};
  stores.add(key);
  BlockTable table;
  table.grow(1);
  stores.store.share(table[0], stores.tier.blocks(key)[0]);
  CHECK(table[0].on_host());
  CHECK(stores.store.host_used().count() == layers);
  stores.add(other); // evicts the first, one block of which the request still has
  CHECK_FALSE(stores.tier.holds(key));
  CHECK(stores.store.host_used().count() == layers + 1);
  CHECK(stores.store.step(table[0], BlockEvent::release));
  CHECK(stores.store.host_used().count() == layers);
  stores.store.share(table[0], stores.tier.blocks(other)[1]);
  CHECK(stores.store.step(table[0], BlockEvent::release)); // the other way round
  CHECK(stores.tier.holds(other));
  CHECK(stores.store.host_used().count() == layers);
}

TEST_CASE("requests that find one block have one device block, which is free when the last has given it up") {
  Stores stores(2);
  KvStore& store = stores.store;
  const RecordKey key{1, 1};
  stores.add(key);
  const std::int32_t host = stores.tier.blocks(key)[0];
  std::vector<BlockTable> tables(3);
  for (BlockTable& table : tables) {
    table.grow(1);
    store.share(table[0], host);
  }
  CHECK(store.copy_of(host) == BlockRun::nowhere);
  PlacedCopy copy;
  REQUIRE(store.fetch(tables[0], 0, 1, false, false, copy) == 1);
  const std::int32_t device = tables[0][0].device;
  CHECK(store.copy_of(host) == device);
  REQUIRE(store.join(tables[1], 0, 1, true) == 1); // while the copy is under way
  store.ended({static_cast<std::size_t>(device), 1});
  REQUIRE(store.arrived(tables[0][0]));
  REQUIRE(store.arrived(tables[1][0]));
  CHECK(tables[1][0].device == device);
  CHECK(tables[1][0].passes());
  CHECK(store.device_used().count() == 1);
  CHECK(store.step(tables[0][0], BlockEvent::release));
  CHECK(store.device_used().count() == 1);
  REQUIRE(store.join(tables[2], 0, 1, false) == 1); // the one who fetched it has left
  REQUIRE(store.arrived(tables[2][0]));
  CHECK(tables[2][0].device == device);
  CHECK(store.step(tables[1][0], BlockEvent::evict));
  CHECK(store.device_used().count() == 1);
  CHECK(store.step(tables[2][0], BlockEvent::release));
  CHECK(store.device_used().count() == 0);
  CHECK(store.copy_of(host) == BlockRun::nowhere);
  CHECK(stores.memory.used().count() == 0);
  REQUIRE(store.fetch(tables[1], 0, 1, false, false, copy) == 1); // as if nobody had had it
  store.ended({static_cast<std::size_t>(tables[1][0].device), 1});
  store.forget_copies({static_cast<std::size_t>(tables[1][0].device), 1}); // the copy has failed
  CHECK(store.copy_of(host) == BlockRun::nowhere);
}

TEST_CASE("a device block that several requests hold leaves when all of them give it up, and counts once") {
  Stores stores(2);
  KvStore& store = stores.store;
  const RecordKey key{1, 1};
  stores.add(key);
  const std::int32_t host = stores.tier.blocks(key)[0];
  std::vector<BlockTable> tables(3);
  for (BlockTable& table : tables) {
    table.grow(1);
    store.share(table[0], host);
  }
  PlacedCopy copy;
  REQUIRE(store.fetch(tables[0], 0, 1, false, false, copy) == 1);
  const std::size_t device = static_cast<std::size_t>(tables[0][0].device);
  REQUIRE(store.join(tables[1], 0, 1, false) == 1);
  CHECK(store.step(tables[0][0], BlockEvent::evict)); // both leave while the copy is under way
  CHECK(store.leaving() == 0);
  CHECK(store.step(tables[1][0], BlockEvent::evict));
  CHECK(store.leaving() == 1);
  REQUIRE(store.join(tables[2], 0, 1, false) == 1);
  CHECK(store.leaving() == 0);
  CHECK(store.step(tables[2][0], BlockEvent::evict));
  CHECK(store.leaving() == 1);
  store.ended({device, 1});
  for (BlockTable& table : tables) CHECK(store.arrived(table[0]));
  CHECK(store.leaving() == 0);
  CHECK(store.device_used().count() == 0);
}

TEST_CASE("blocks kept for a request that waits are pinned until it starts or leaves") {
  Stores stores(2);
  const RecordKey one{1, 1}, two{2, 2};
  stores.add(one);
  stores.add(two);
  stores.tier.keep_for(RequestId{7}, {one, two});
  CHECK(stores.tier.keeps_for(RequestId{7}));
  CHECK(stores.tier.reserve(1) == 0);
  CHECK(stores.tier.take_kept(RequestId{7}).size() == 2);
  CHECK_FALSE(stores.tier.keeps_for(RequestId{7}));
  CHECK(stores.tier.reserve(1) == 1);
  stores.tier.give_back(1);
  CHECK(stores.tier.take_kept(RequestId{8}).empty());
}
