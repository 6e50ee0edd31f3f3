// SPDX-License-Identifier: Apache-2.0
// HostTier: which blocks it has, beside lists that do the same by the definitions of the rules; host blocks with
// several holders.
#include "sluice/core/random.hpp"
#include "sluice/world/host_tier/host_tier.hpp"
#include "sluice/world/machine/block_pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  explicit Stores(std::int64_t token_blocks, Replacement replacement = Replacement::least_recent, double pin_share = 1)
      : store({2, 16, 4}, memory, LayerBlocks{token_blocks * layers}, 8),
        tier(store, layers, LayerBlocks{token_blocks * layers}, replacement, pin_share) {}
  void add(const RecordKey& key, double worth = 0, const RecordKey* before = nullptr) {
    REQUIRE(tier.reserve(1, worth) == 1);
    add_reserved(key, worth, before);
  }
  void add_reserved(const RecordKey& key, double worth, const RecordKey* before) {
    std::vector<std::int32_t> host;
    for (int layer = 0; layer < layers; ++layer) host.push_back(store.take_host(-1));
    tier.add({&key, 1}, {std::move(host)}, worth, before, [](std::size_t) {});
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

TEST_CASE("the least often used blocks leave, of equals the least recent, but no pinned one") {
  Random random(3);
  constexpr std::size_t capacity = 10;
  Stores stores(capacity, Replacement::least_frequent);
  struct Listed {
    RecordKey key;
    int uses = 1, pins = 0;
  };
  std::vector<Listed> list; // the reference: the least recent first
  for (int step = 0; step < 4'000; ++step) {
    const RecordKey key{1, random.below(25)};
    const auto found = std::find_if(list.begin(), list.end(), [&](const Listed& one) { return one.key == key; });
    CHECK(stores.tier.holds(key) == (found != list.end()));
    const std::uint64_t action = random.below(5);
    if (found != list.end() && action == 3) {
      stores.tier.pin({&key, 1});
      ++found->pins;
    } else if (found != list.end() && action == 4) {
      if (found->pins == 0) continue;
      stores.tier.unpin({&key, 1});
      --found->pins;
    } else if (found != list.end()) {
      stores.tier.touch({&key, 1});
      stores.tier.touch_again({&key, 1}, 0); // no second use
      ++found->uses;
      std::rotate(found, found + 1, list.end());
    } else {
      auto least = list.end();
      for (auto one = list.begin(); one != list.end(); ++one)
        if (one->pins == 0 && (least == list.end() || one->uses < least->uses)) least = one;
      if (list.size() == capacity && least == list.end()) {
        CHECK(stores.tier.reserve(1) == 0);
        continue;
      }
      if (list.size() == capacity) list.erase(least);
      stores.add(key);
      list.push_back({key});
    }
  }
  CHECK(stores.tier.counts().evicted > 100);
}

TEST_CASE(
    "the least worthy block that nothing follows leaves, but no pinned one and none worth more than the new one") {
  Random random(4);
  constexpr std::size_t capacity = 12;
  Stores stores(capacity, Replacement::least_worth);
  struct Listed {
    RecordKey key;
    int chat = 0, block = 0, pins = 0;
    double worth = 0;
  };
  std::vector<Listed> list; // the reference
  const auto at = [&list](int chat, int block) {
    return std::find_if(list.begin(), list.end(), [=](const Listed& x) { return x.chat == chat && x.block == block; });
  };
  std::int64_t refused = 0;
  double next = 0; // worths differ
  for (int step = 0; step < 4'000; ++step) {
    const int chat = static_cast<int>(random.below(8));
    int block = 0;
    while (at(chat, block) != list.end()) ++block;
    if (const std::uint64_t action = random.below(4); action < 2 && block > 0) {
      const auto pinned = at(chat, static_cast<int>(random.below(static_cast<std::uint64_t>(block))));
      if (action == 0 && pinned->pins == 0) {
        stores.tier.pin({&pinned->key, 1});
        ++pinned->pins;
      } else if (pinned->pins > 0) {
        stores.tier.unpin({&pinned->key, 1});
        --pinned->pins;
      }
      continue;
    }
    const RecordKey key{static_cast<std::uint64_t>(chat), static_cast<std::uint64_t>(block)};
    const RecordKey before{key.high, key.low - 1};
    const double worth = 100 * random.uniform() + 1e-6 * ++next;
    if (block > 0) stores.tier.pin({&before, 1}); // as for a request that has it
    if (block > 0) ++at(chat, block - 1)->pins;
    auto least = list.end();
    for (auto one = list.begin(); one != list.end(); ++one)
      if (one->pins == 0 && at(one->chat, one->block + 1) == list.end() &&
          (least == list.end() || one->worth < least->worth))
        least = one;
    const bool fits = list.size() < capacity || (least != list.end() && least->worth <= worth);
    if (list.size() == capacity && fits) list.erase(least);
    CHECK(stores.tier.reserve(1, worth) == (fits ? 1 : 0));
    if (fits) {
      stores.add_reserved(key, worth, block > 0 ? &before : nullptr);
      list.push_back({key, chat, block, 0, worth});
    } else {
      ++refused;
    }
    if (block > 0) stores.tier.unpin({&before, 1});
    if (block > 0) --at(chat, block - 1)->pins;
    CHECK(stores.tier.counts().blocks == std::ssize(list));
    for (const Listed& one : list) CHECK(stores.tier.holds(one.key));
  }
  CHECK(stores.tier.counts().evicted > 50);
  CHECK(refused > 100);
}

TEST_CASE("ARC: no pinned block leaves, and a block that was evicted lately comes back as one used often") {
  Random random(5);
  constexpr std::int64_t capacity = 8;
  Stores stores(capacity, Replacement::adaptive);
  std::vector<RecordKey> pinned;
  for (int step = 0; step < 3'000; ++step) {
    const RecordKey key{1, random.below(20)};
    if (stores.tier.holds(key) && random.below(4) == 0 && pinned.size() < 6) {
      stores.tier.pin({&key, 1});
      pinned.push_back(key);
    } else if (!pinned.empty() && random.below(5) == 0) {
      stores.tier.unpin({&pinned.back(), 1});
      pinned.pop_back();
    } else if (stores.tier.holds(key)) {
      stores.tier.touch({&key, 1});
    } else {
      stores.add(key);
    }
    for (const RecordKey& one : pinned) CHECK(stores.tier.holds(one));
    CHECK(stores.tier.counts().blocks <= capacity);
  }
  CHECK(stores.tier.counts().evicted > 100);
}

TEST_CASE("a session's blocks stay until its time is over, its next request joins, or nothing else can leave") {
  Stores stores(4);
  const auto key = [](std::uint64_t number) { return RecordKey{2, number}; };
  for (std::uint64_t number = 0; number < 4; ++number) stores.add(key(number));
  stores.tier.pin_session(7, 0, {key(0), key(1)}, Seconds{10}, Seconds{0});
  stores.tier.pin_session(8, 0, {key(2)}, Seconds{5}, Seconds{0});
  stores.add(key(4)); // instead of 3, though 0 is the least recent
  CHECK_FALSE(stores.tier.holds(key(3)));
  stores.add(key(5));
  CHECK_FALSE(stores.tier.holds(key(4)));
  CHECK(stores.tier.reserve(2) == 2); // 5, and then the pin that ends the soonest
  CHECK_FALSE(stores.tier.holds(key(2)));
  stores.tier.give_back(2);
  CHECK(stores.tier.find(std::vector{key(0), key(1)}) == 2);
  stores.add(key(6));
  stores.add(key(7));
  stores.tier.unpin_expired(Seconds{9.9});
  stores.add(key(8));
  CHECK(stores.tier.holds(key(0)));
  SUBCASE("its time is over") { stores.tier.unpin_expired(Seconds{10}); }
  SUBCASE("its next request joins") { stores.tier.unpin_session(7); }
  stores.add(key(9));
  stores.add(key(10));
  CHECK_FALSE(stores.tier.holds(key(0)));
  CHECK_FALSE(stores.tier.holds(key(1)));
}

TEST_CASE(
    "blocks that their client gives up leave first, the last one first, except for what others have had or wait for") {
  const auto key = [](std::uint64_t number) { return RecordKey{2, number}; };
  for (const Replacement rule :
       {Replacement::least_recent, Replacement::least_frequent, Replacement::adaptive, Replacement::least_worth}) {
    CAPTURE(name(rule));
    Stores stores(6, rule);
    std::vector<RecordKey> session;
    for (std::uint64_t number = 0; number < 4; ++number) {
      stores.add(key(number), 0, number == 0 ? nullptr : &session.back());
      session.push_back(key(number));
    }
    for (const std::uint64_t number : {8u, 9u}) stores.add(key(number)); // of others, at least as recent
    stores.tier.note_user(session, 5);
    stores.tier.note_user(std::vector{key(0)}, 6); // a system prompt that two sessions have
    stores.tier.note_user(std::vector{key(0), key(77)}, 5);
    for (int use = 0; use < 3; ++use) stores.tier.touch(session); // they would be the last to leave
    stores.tier.keep_for(RequestId{1}, {key(0), key(1)});
    stores.tier.leave_first(session, 5);
    std::vector<std::uint64_t> left;
    const auto add = [&](std::uint64_t number) {
      stores.add(key(number));
      for (const std::uint64_t old : {0u, 1u, 2u, 3u, 8u, 9u})
        if (!stores.tier.holds(key(old)) && std::count(left.begin(), left.end(), old) == 0) left.push_back(old);
    };
    add(20);
    add(21);
    CHECK(left == std::vector<std::uint64_t>{3, 2});
    CHECK(stores.tier.take_kept(RequestId{1}).size() == 2);
    // 1 was waited for, and keeps its place; so does 0, which another session has had.
    stores.tier.leave_first(std::vector{key(0), key(1)}, 5);
    add(22);
    CHECK(left.back() == 1);
    CHECK(stores.tier.holds(key(0)));
  }
}

TEST_CASE("a key's sessions pin at most its share of the tier, whatever other keys pin") {
  Random random(6);
  constexpr std::int64_t capacity = 40, share = 15;
  Stores stores(capacity, Replacement::least_recent, static_cast<double>(share) / capacity);
  struct Pin {
    std::uint32_t session;
    std::uint64_t salt;
    std::vector<RecordKey> keys;
    Seconds until;
  };
  std::vector<Pin> pins; // the reference
  const auto pinned = [&pins](std::uint64_t salt) {
    std::set<std::pair<std::uint64_t, std::uint64_t>> keys;
    for (const Pin& pin : pins)
      if (pin.salt == salt)
        for (const RecordKey& key : pin.keys) keys.emplace(key.high, key.low);
    return std::ssize(keys);
  };
  for (std::uint64_t salt = 0; salt < 2; ++salt)
    for (std::uint64_t number = 0; number < 20; ++number) stores.add({salt, number});
  std::int64_t asked = 0, lost = 0, cut = 0, expired = 0, kept = 0;
  for (std::uint32_t step = 1; step <= 4'000; ++step) {
    const Seconds now{0.25 * step};
    if (random.below(4) == 0 && !pins.empty()) {
      const std::uint32_t session = pins[random.below(pins.size())].session;
      stores.tier.unpin_session(session);
      std::erase_if(pins, [session](const Pin& pin) { return pin.session == session; });
    } else {
      Pin pin{step, random.below(2), {}, now + Seconds{100 * random.uniform() - 5}};
      const std::uint64_t first = random.below(20), count = 1 + random.below(20 - first);
      for (std::uint64_t i = 0; i < count; ++i) pin.keys.push_back({pin.salt, first + i});
      stores.tier.pin_session(pin.session, pin.salt, pin.keys, pin.until, now);
      std::erase_if(pins, [now](const Pin& one) { return one.until <= now; });
      if (pin.until > now) {
        ++asked;
        const std::uint64_t salt = pin.salt;
        pin.keys.resize(std::min(pin.keys.size(), static_cast<std::size_t>(share)));
        pins.push_back(pin);
        const auto by_end = [](const Pin& a, const Pin& b) { return a.until < b.until; };
        std::stable_sort(pins.begin(), pins.end(), by_end);
        while (pinned(salt) > share) { // the one that would end the soonest, if it lets a block go
          std::size_t i = 0;
          for (; pins[i].session != step; ++i) {
            if (pins[i].salt != salt) continue;
            const std::int64_t before = pinned(salt);
            const std::vector<RecordKey> keys = std::exchange(pins[i].keys, {});
            const bool lets_go = pinned(salt) < before;
            pins[i].keys = keys;
            if (lets_go) break;
            ++kept;
          }
          if (pins[i].session == step) {
            ++cut;
            pins[i].keys.pop_back();
            if (!pins[i].keys.empty()) continue;
          }
          pins.erase(pins.begin() + static_cast<std::ptrdiff_t>(i));
          ++lost;
        }
      } else {
        ++expired;
      }
    }
    CHECK(stores.tier.counts().pinned == pinned(0) + pinned(1));
    CHECK(stores.tier.counts().pins == asked);
    CHECK(stores.tier.counts().lost_pins == lost);
  }
  CHECK(lost > 100);
  CHECK(cut > 20);
  CHECK(kept > 20);
  CHECK(expired > 20);
  // What is pinned stays, and all else leaves.
  const std::int64_t free = capacity - pinned(0) - pinned(1);
  CHECK(stores.tier.reserve(free) == free);
  for (const Pin& pin : pins) CHECK(stores.tier.find(pin.keys) == pin.keys.size());
  CHECK(stores.tier.counts().blocks == capacity - free);
}

TEST_CASE("of a pin beyond the share its beginning stays, and a share is a block at the least") {
  const auto pinned = [](double share, std::size_t blocks) {
    Stores stores(10, Replacement::least_recent, share);
    std::vector<RecordKey> keys;
    for (std::uint64_t number = 0; number < 10; ++number) stores.add({3, number});
    for (std::uint64_t number = 0; number < blocks; ++number) keys.push_back({3, number});
    stores.tier.pin_session(7, 0, keys, Seconds{1}, Seconds{0});
    const auto stay = static_cast<std::size_t>(stores.tier.counts().pinned);
    CHECK(stores.tier.counts().lost_pins == 0);
    CHECK(stores.tier.reserve(10 - std::ssize(keys)) == 10 - std::ssize(keys)); // the pin is not lost for these
    CHECK(stores.tier.find(keys) >= stay);
    return stay;
  };
  CHECK(pinned(0.4, 4) == 4);
  CHECK(pinned(0.4, 5) == 4);
  CHECK(pinned(0.4, 9) == 4);
  CHECK(pinned(0.01, 5) == 1);
  CHECK(pinned(1, 9) == 9);
}

TEST_CASE("a prompt that is pinned again and again without a session has one pin, which ends last") {
  Stores stores(10, Replacement::least_recent, 1);
  for (std::uint64_t number = 0; number < 10; ++number) stores.add({3, number});
  const std::vector<RecordKey> keys{{3, 0}, {3, 1}, {3, 2}};
  for (int i = 0; i < 100; ++i) stores.tier.pin_session(0, 3, keys, Seconds{50.0 + (i == 40 ? 50 : i % 7)}, Seconds{1});
  CHECK(stores.tier.session_pins() == 1);
  stores.tier.unpin_expired(Seconds{99});
  CHECK(stores.tier.counts().pinned == 3);
  stores.tier.unpin_expired(Seconds{100});
  CHECK(stores.tier.counts().pinned == 0);
  CHECK(stores.tier.session_pins() == 0);
}

TEST_CASE("sessions keep pins whose loss would let no block leave") {
  const auto key = [](std::uint64_t number) { return RecordKey{2, number}; };
  SUBCASE("a request longer than the tier gets all of it that is not pinned otherwise") {
    Stores stores(3);
    for (std::uint64_t number = 0; number < 3; ++number) stores.add(key(number));
    stores.tier.pin({std::vector{key(0)}});
    stores.tier.pin_session(7, 0, {key(0)}, Seconds{1}, Seconds{0}); // a request that waits has it, too
    CHECK(stores.tier.reserve(9) == 2);
    stores.tier.give_back(2);
    stores.tier.unpin({std::vector{key(0)}});
    for (std::uint64_t number = 3; number < 6; ++number) stores.add(key(number));
    CHECK(stores.tier.holds(key(0))); // the session still pins it
    CHECK(stores.tier.reserve(9) == 3);
    CHECK_FALSE(stores.tier.holds(key(0)));
  }
  SUBCASE("no more pins are lost than room is needed") {
    Stores stores(4);
    for (std::uint64_t number = 0; number < 4; ++number) {
      stores.add(key(number));
      stores.tier.pin_session(static_cast<std::uint32_t>(number), 0, {key(number)}, Seconds{9.0 - double(number)},
                              Seconds{0});
    }
    CHECK(stores.tier.reserve(2) == 2);
    CHECK(stores.tier.find(std::vector{key(0), key(1)}) == 2);
  }
  SUBCASE("worthier blocks") {
    Stores stores(2, Replacement::least_worth);
    stores.add(key(0), 5);
    stores.add(key(1), 3);
    stores.tier.pin_session(7, 0, {key(0)}, Seconds{1}, Seconds{0});
    stores.tier.pin_session(8, 0, {key(1)}, Seconds{2}, Seconds{0});
    CHECK(stores.tier.reserve(1, 2) == 0);
    CHECK(stores.tier.reserve(2, 4) == 1); // instead of 1
    CHECK(stores.tier.holds(key(0)));
    stores.add_reserved(key(2), 9, nullptr);
    stores.add(key(3), 9); // instead of 2: the session still pins 0
    CHECK(stores.tier.holds(key(0)));
  }
  SUBCASE("a block that two sessions pin") {
    Stores stores(2);
    stores.add(key(0));
    stores.add(key(1));
    stores.tier.pin_session(7, 0, {key(0)}, Seconds{1}, Seconds{0});
    stores.tier.pin_session(8, 0, {key(0)}, Seconds{2}, Seconds{0});
    stores.tier.pin_session(9, 0, {key(1)}, Seconds{3}, Seconds{0});
    CHECK(stores.tier.reserve(1) == 1); // the only one that lets a block leave on its own
    CHECK(stores.tier.holds(key(0)));
    CHECK(stores.tier.reserve(1) == 1);
    CHECK_FALSE(stores.tier.holds(key(0)));
  }
}

TEST_CASE("blocks whose predecessor has left meanwhile are released: nobody could find them") {
  Stores stores(3);
  const RecordKey first{1, 1}, second{1, 2};
  REQUIRE(stores.tier.reserve(1) == 1);
  stores.add_reserved(second, 0, &first);
  CHECK_FALSE(stores.tier.holds(second));
  CHECK(stores.store.host_used().count() == 0);
  CHECK(stores.tier.reserve(3) == 3); // its room is free again
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

TEST_CASE("KV computed with other windows has another digest") {
  const std::vector<std::byte> numbers(64);
  const auto digest = [&numbers](std::vector<int> windows) {
    ModelWeights weights;
    weights.config.windows = std::move(windows);
    weights.embedding = weights.final_norm = weights.head = Matrix::whole(numbers.data(), 1, 16, ElementType::f32);
    return kv_digest(weights, 4, Tokens{16}, "a build");
  };
  CHECK(digest({}) == digest({}));
  CHECK(std::set<std::uint64_t>{digest({}), digest({8, 0}), digest({0, 8}), digest({8, 8})}.size() == 4);
}

TEST_CASE("KV of another latent attention, or rotated otherwise, has another digest") {
  const std::vector<std::byte> numbers(64);
  std::set<std::uint64_t> digests;
  const auto add = [&](const std::function<void(DecoderConfig&)>& change) {
    ModelWeights weights;
    weights.config.shape.latent = {.rank = 12, .rotated = 4, .value = 8};
    change(weights.config);
    weights.embedding = weights.final_norm = weights.head = Matrix::whole(numbers.data(), 1, 16, ElementType::f32);
    digests.insert(kv_digest(weights, 4, Tokens{16}, "a build"));
  };
  add([](DecoderConfig&) {});
  add([](DecoderConfig& config) { config.shape.latent = {}; });
  add([](DecoderConfig& config) { config.shape.latent.rotated = 6; });
  add([](DecoderConfig& config) { config.shape.latent.query_rank = 6; });
  add([](DecoderConfig& config) { config.neighbours_rotate = true; });
  add([](DecoderConfig& config) { config.rope_scaling.kind = RopeScalingKind::yarn; });
  add([](DecoderConfig& config) {
    config.rope_scaling.kind = RopeScalingKind::yarn;
    config.rope_scaling.rotated_factor = 1.25;
  });
  CHECK(digests.size() == 7);
}

TEST_CASE("KV of experts that are chosen otherwise has another digest") {
  const std::vector<std::byte> numbers(64);
  std::set<std::uint64_t> digests;
  const auto add = [&](const std::function<void(DecoderConfig&)>& change) {
    ModelWeights weights;
    weights.config.shape.experts = 8;
    weights.config.shape.experts_per_token = 2;
    change(weights.config);
    weights.embedding = weights.final_norm = weights.head = Matrix::whole(numbers.data(), 1, 16, ElementType::f32);
    digests.insert(kv_digest(weights, 4, Tokens{16}, "a build"));
  };
  add([](DecoderConfig&) {});
  add([](DecoderConfig& config) { config.shape.experts_per_token = 3; });
  add([](DecoderConfig& config) { config.shape.shared_intermediate = 4; });
  add([](DecoderConfig& config) { config.shape.dense.insert(2); });
  add([](DecoderConfig& config) { config.routing.score = RouterScore::sigmoid; });
  add([](DecoderConfig& config) { config.routing.normalised = false; });
  add([](DecoderConfig& config) { config.routing.scale = 2; });
  add([](DecoderConfig& config) { config.routing.groups = 2; });
  add([](DecoderConfig& config) { config.routing.groups = config.routing.groups_per_token = 2; });
  CHECK(digests.size() == 9);
}
