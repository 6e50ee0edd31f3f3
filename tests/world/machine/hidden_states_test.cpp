// SPDX-License-Identifier: Apache-2.0
#include "sluice/world/machine/hidden_states.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

namespace sluice {
namespace {

constexpr KvBlockShape states_shape{4, 32, 4, 100}; // blocks of 512 bytes: five states of 100

struct StateStores {
  DeviceMemory device;
  KvStore store;
  explicit StateStores(std::int64_t blocks, std::int64_t host = 64)
      : device(Bytes{blocks * states_shape.bytes().count()}), store(states_shape, device, LayerBlocks{host}, blocks) {}

  /// Sends the block, which has `tokens` states, and ends the copy.
  PlacedCopy send(BlockTable& table, std::int32_t tokens) {
    BlockRun& entry = table[0];
    entry.tokens = static_cast<std::uint16_t>(tokens);
    PlacedCopy copy;
    REQUIRE(store.step(entry, BlockEvent::evict));
    REQUIRE(store.send(table, 0, 1, true, copy) == 1);
    store.ended({static_cast<std::size_t>(entry.device), 1});
    REQUIRE(store.sent(entry));
    return copy;
  }
};

} // namespace

TEST_CASE("a block holds whole hidden states, and two layers' worth of blocks wait for the link") {
  CHECK(states_shape.hidden_tokens() == 5);
  CHECK(KvBlockShape{4, 32, 4}.hidden_tokens() == 0);
  CHECK(KvBlockShape{4, 32, 4, 513}.hidden_tokens() == 0);
  CHECK(hidden_in_flight(states_shape, 11, 2).count() == 2 * (3 + 2));
  CHECK(hidden_in_flight({4, 32, 4}, 11, 2).count() == 0);
}

TEST_CASE("only appended hidden states are sent, and they follow those on the host") {
  StateStores stores(2);
  KvStore& store = stores.store;
  BlockTable table;
  table.grow(1);
  const BlockRun& entry = table[0];
  REQUIRE(store.append_hidden(table, 0));
  CHECK(store.append_hidden(table, 0)); // already open
  PlacedCopy copy = stores.send(table, 2);
  CHECK(copy.device_at == 0);
  CHECK(copy.total() == 200);
  CHECK(stores.device.used().count() == 0);
  const std::int32_t host = entry.host;

  REQUIRE(store.append_hidden(table, 0));
  CHECK(entry.on_device());
  CHECK(entry.state.writable());
  copy = stores.send(table, 3);
  CHECK(copy.host_block == host);
  CHECK(copy.device_at == 200);
  CHECK(copy.host_at == 200);
  CHECK(copy.total() == 100);

  PlacedCopy back;
  REQUIRE(store.fetch(table, 0, 1, true, true, back) == 1);
  CHECK(back.total() == 300);
  CHECK_FALSE(store.append_hidden(table, 0)); // arriving
  store.ended({static_cast<std::size_t>(entry.device), 1});
  REQUIRE(store.arrived(table[0]));
  REQUIRE(store.append_hidden(table, 0)); // clean: read, then appended to
  copy = stores.send(table, 5);
  CHECK(copy.device_at == 300);
  CHECK(copy.total() == 200);
  store.step(table[0], BlockEvent::release);
  CHECK(store.host_used().count() == 0);
}

TEST_CASE("hidden states take no host place that a device block may need") {
  for (const bool kv_first : {false, true}) {
    CAPTURE(kv_first);
    StateStores stores(2, 2); // four places on the host, two of them for the device's blocks
    KvStore& store = stores.store;
    BlockTable kv, first, second, third;
    for (BlockTable* one : {&kv, &first, &second, &third}) one->grow(1);
    if (kv_first) REQUIRE(store.take(kv, 0, 1) == 1);
    REQUIRE(store.append_hidden(first, 0));
    stores.send(first, 5);
    REQUIRE(store.append_hidden(second, 0));
    stores.send(second, 5);
    CHECK_FALSE(store.has_place_for_hidden());
    CHECK_FALSE(store.append_hidden(third, 0));
    if (!kv_first) REQUIRE(store.take(kv, 0, 1) == 1);
    for (BlockTable* one : {&kv, &third}) {
      if (one == &third) REQUIRE(store.take(third, 0, 1) == 1);
      (*one)[0].tokens = 4;
      PlacedCopy copy;
      REQUIRE(store.step((*one)[0], BlockEvent::evict));
      CHECK(store.send(*one, 0, 1, false, copy) == 1);
    }
  }
}

} // namespace sluice
