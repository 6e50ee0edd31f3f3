// SPDX-License-Identifier: Apache-2.0
#include "sluice/backend/machine/hidden_states.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace sluice {
namespace {

constexpr KvBlockShape states_shape{4, 32, 4, 100}; // blocks of 512 bytes: five states of 100

struct StateStores {
  DeviceMemory device;
  KvStore store;
  explicit StateStores(std::int64_t blocks, std::int64_t host = 64)
      : device(Bytes{blocks * states_shape.bytes().count()}), store(states_shape, device, LayerBlocks{host}, blocks) {}

  /// Sends the cell, of which `tokens` states are there, and ends the copy.
  PlacedCopy send(KvCell& cell, std::int32_t tokens) {
    cell.tokens = tokens;
    std::optional<PlacedCopy> copy;
    REQUIRE(store.send(cell, true, copy));
    REQUIRE(copy);
    REQUIRE(store.sent(cell));
    return *copy;
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

TEST_CASE("hidden states are appended to beside what the host has, and the new ones alone are sent") {
  StateStores stores(2);
  KvStore& store = stores.store;
  KvCell cell;
  REQUIRE(store.append(cell));
  CHECK(cell.hidden);
  CHECK(store.append(cell)); // open already
  PlacedCopy copy = stores.send(cell, 2);
  CHECK(copy.device_at == 0);
  CHECK(copy.total() == 200);
  CHECK(stores.device.used().count() == 0);
  const std::int32_t host = cell.host;

  REQUIRE(store.append(cell));
  CHECK(cell.on_device());
  CHECK(store.writable(cell));
  copy = stores.send(cell, 3);
  CHECK(copy.host_block == host);
  CHECK(copy.device_at == 200);
  CHECK(copy.host_at == 200);
  CHECK(copy.total() == 100);

  const std::optional<PlacedCopy> back = store.fetch(cell);
  REQUIRE(back);
  CHECK(back->total() == 300);
  CHECK_FALSE(store.append(cell)); // arriving
  REQUIRE(store.fetched(cell));
  REQUIRE(store.append(cell)); // clean: read, and then appended to
  copy = stores.send(cell, 5);
  CHECK(copy.device_at == 300);
  CHECK(copy.total() == 200);
  store.release(cell);
  CHECK(store.host_used().count() == 0);
}

TEST_CASE("hidden states take no place on the host that what is on the device may need") {
  for (const bool kv_first : {false, true}) {
    CAPTURE(kv_first);
    StateStores stores(2, 2); // four places on the host, two for what the device may hold
    KvStore& store = stores.store;
    KvCell kv, first, second, third;
    if (kv_first) REQUIRE(store.take(kv));
    REQUIRE(store.append(first));
    stores.send(first, 5);
    REQUIRE(store.append(second));
    stores.send(second, 5);
    CHECK_FALSE(store.has_place_for_hidden());
    CHECK_FALSE(store.append(third));
    if (!kv_first) REQUIRE(store.take(kv));
    for (KvCell* one : {&kv, &third}) {
      if (one == &third) REQUIRE(store.take(third));
      one->tokens = 4;
      std::optional<PlacedCopy> copy;
      CHECK(store.send(*one, true, copy));
    }
  }
}

} // namespace sluice
