// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/world/machine/kv_store.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

namespace sluice {
namespace {

constexpr KvBlockShape shape{4, 32, 4}; // 4 runs of 4 tokens of 32 bytes: 512 bytes

struct Stores {
  DeviceMemory device;
  KvStore store;
  std::vector<std::byte> on_device, on_host; ///< the bytes of all blocks, as a device would have them

  explicit Stores(std::int64_t blocks, std::int64_t host = 64)
      : device(Bytes{blocks * shape.bytes().count()}),
        store(shape, device, LayerBlocks{host}, blocks),
        on_device(store.device_blocks() * size()),
        on_host(store.host_blocks() * size()) {}

  static std::size_t size() { return static_cast<std::size_t>(shape.bytes().count()); }
  std::byte* device_block(std::int32_t block) { return on_device.data() + static_cast<std::size_t>(block) * size(); }
  std::byte* host_block(std::int32_t block) { return on_host.data() + static_cast<std::size_t>(block) * size(); }

  void move(const PlacedCopy& copy) {
    std::byte* const there = device_block(copy.device.index) + copy.device_at;
    std::byte* const here = host_block(copy.host_block) + copy.host_at;
    for (std::int64_t row = 0; row < copy.rows; ++row)
      std::memcpy((copy.way == Way::to_device ? there : here) + row * copy.stride,
                  (copy.way == Way::to_device ? here : there) + row * copy.stride,
                  static_cast<std::size_t>(copy.bytes));
  }
  float* number(const KvBlock& entry, std::int64_t run, std::int64_t token, std::int64_t i) {
    return reinterpret_cast<float*>(device_block(entry.device) + run * shape.run_bytes() + token * shape.token_bytes) +
           i;
  }
  void fill(const KvBlock& entry, std::int64_t token, float value) {
    for (std::int64_t run = 0; run < shape.runs; ++run)
      for (std::int64_t i = 0; i < shape.token_bytes / 4; ++i) *number(entry, run, token, i) = value;
  }
  bool holds(const KvBlock& entry, std::int64_t token, float value) {
    bool all = true;
    for (std::int64_t run = 0; run < shape.runs; ++run)
      for (std::int64_t i = 0; i < shape.token_bytes / 4; ++i) all = all && *number(entry, run, token, i) == value;
    return all;
  }
};

} // namespace

TEST_CASE("a block goes out and returns with its bytes, and only appended tokens go out again") {
  Stores stores(3);
  KvStore& store = stores.store;
  KvBlock entry;
  PlacedCopy copy;
  const auto send = [&] {
    REQUIRE(store.step(entry, BlockEvent::evict));
    REQUIRE(store.send({&entry, 1}, false, copy) == 1);
    CHECK(entry.state.transfer == BlockTransfer::sending);
    stores.move(copy);
    store.ended({static_cast<std::size_t>(entry.device), 1});
    REQUIRE(store.sent(entry));
    CHECK(entry.on_host());
  };
  const auto fetch = [&] {
    REQUIRE(store.fetch({&entry, 1}, true, false, copy) == 1);
    CHECK_FALSE(entry.state.readable());
    stores.move(copy);
    store.ended({static_cast<std::size_t>(entry.device), 1});
    REQUIRE(store.arrived(entry));
  };
  REQUIRE(store.take(entry));
  for (std::int64_t token = 0; token < 2; ++token) stores.fill(entry, token, static_cast<float>(token + 1));
  entry.tokens = 2;
  send();
  CHECK(copy.total() == shape.bytes().count());
  CHECK(stores.device.used().count() == 0);

  fetch();
  CHECK(stores.holds(entry, 1, 2));
  REQUIRE(store.step(entry, BlockEvent::append));
  CHECK(entry.state.writable());
  stores.fill(entry, 2, 3);
  entry.tokens = 3;
  send();
  CHECK_MESSAGE(copy.total() == shape.runs * shape.token_bytes, "one token of each run");
  fetch();
  for (std::int64_t token = 0; token < 3; ++token) CHECK(stores.holds(entry, token, static_cast<float>(token + 1)));
  store.step(entry, BlockEvent::release);
  CHECK(stores.device.used().count() == 0);
  CHECK(store.host_used().count() == 0);
}

TEST_CASE("neighbouring blocks cross the link as one copy, as far as both memories have them side by side") {
  Stores stores(8);
  KvStore& store = stores.store;
  std::vector<KvBlock> table(6), other(1);
  for (std::size_t i = 0; i < table.size(); ++i) {
    REQUIRE(store.take(table[i], i > 0 ? &table[i - 1] : nullptr));
    if (i == 2) REQUIRE(store.take(other[0]));
    table[i].tokens = 4;
    REQUIRE(store.step(table[i], BlockEvent::evict));
  }
  const std::span<KvBlock> all{table};
  PlacedCopy copy;
  REQUIRE(store.send(all, false, copy) == 3); // another table's block lies behind the third
  CHECK(copy.device.count == 3);
  CHECK(copy.total() == 3 * shape.bytes().count());
  REQUIRE(store.send(all.subspan(3), false, copy) == 3);
  for (KvBlock& entry : table) {
    store.ended({static_cast<std::size_t>(entry.device), 1});
    REQUIRE(store.sent(entry));
  }
  CHECK(store.leaving() == 0);
  // Device blocks come in turn: the last one, then those before the other table's, then those behind it.
  REQUIRE(store.fetch(all, true, false, copy) == 1);
  REQUIRE(store.fetch(all.subspan(1), true, false, copy) == 3);
  CHECK(copy.host_block == table[1].host);
  REQUIRE(store.fetch(all.subspan(4), true, false, copy) == 2);
  CHECK(copy.device.index > other[0].device);
}

/// Random events on some tables and their copies' ends, against the contents that each block must have.
TEST_CASE("no order of events loses a byte, shares a block, or takes memory that does not exist") {
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    Stores stores(1 + static_cast<std::int64_t>(random.below(8)));
    KvStore& store = stores.store;
    struct Moving {
      Way way;
      std::size_t entry;
      std::int32_t device, host;
      bool unwanted;
      std::uint64_t bytes; ///< what the source had when the copy began
    };
    std::vector<KvBlock> table(12);
    std::vector<std::uint64_t> content(table.size());
    std::vector<std::uint64_t> on_device(store.device_blocks()), on_host(store.host_blocks());
    std::vector<Moving> moving;
    std::uint64_t next = 1;
    const auto begun = [&](Way way, std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i)
        moving.push_back({way, i, table[i].device, table[i].host, false,
                          way == Way::to_host ? on_device[static_cast<std::size_t>(table[i].device)]
                                              : on_host[static_cast<std::size_t>(table[i].host)]});
    };
    for (int step = 0; step < 600; ++step) {
      const std::size_t at = random.below(table.size());
      KvBlock& entry = table[at];
      const std::span<KvBlock> from = std::span{table}.subspan(at, 1 + random.below(table.size() - at));
      PlacedCopy copy;
      switch (random.below(9)) {
      case 0:
        if (store.take(entry, at > 0 ? &table[at - 1] : nullptr)) {
          entry.tokens = 4;
          on_device[static_cast<std::size_t>(entry.device)] = content[at] = next++;
        }
        break;
      case 1:
        if (!entry.on_device() || !store.step(entry, BlockEvent::append)) break;
        CHECK(entry.state.writable());
        on_device[static_cast<std::size_t>(entry.device)] = content[at] = next++;
        break;
      case 2:
        if (entry.on_host()) begun(Way::to_device, at, store.fetch(from, random.below(2) == 0, false, copy));
        break;
      case 3:
        if (after(entry.state, BlockEvent::send)) begun(Way::to_host, at, store.send(from, false, copy));
        break;
      case 4: { // the oldest copy ends
        if (moving.empty()) break;
        const Moving one = moving.front();
        moving.erase(moving.begin());
        const auto device = static_cast<std::size_t>(one.device), host = static_cast<std::size_t>(one.host);
        store.ended({device, 1});
        CHECK((one.way == Way::to_host ? on_device[device] : on_host[host]) == one.bytes); // nobody wrote the source
        (one.way == Way::to_host ? on_host[host] : on_device[device]) = one.bytes;
        if (one.unwanted)
          store.ended_unwanted(device, host);
        else if (one.way == Way::to_host)
          CHECK(store.sent(table[one.entry]));
        else
          CHECK(store.arrived(table[one.entry]));
        break;
      }
      case 5:
        for (Moving& one : moving)
          if (one.entry == at && entry.state.in_transfer()) one.unwanted = true;
        store.step(entry, BlockEvent::release);
        break;
      default: {
        constexpr BlockEvent events[] = {BlockEvent::pass,  BlockEvent::keep,         BlockEvent::use,
                                         BlockEvent::evict, BlockEvent::give_up_copy, BlockEvent::copy_ahead};
        store.step(entry, events[random.below(std::size(events))]);
      }
      }
      std::int64_t held = 0, leaving = 0;
      std::vector<int> device_owners(on_device.size()), host_owners(on_host.size());
      for (std::size_t i = 0; i < table.size(); ++i) {
        const KvBlock& one = table[i];
        if (one.on_device()) ++held, ++device_owners[static_cast<std::size_t>(one.device)];
        if (one.on_device() && one.leaves()) ++leaving;
        if (one.state.has_host_place()) ++host_owners[static_cast<std::size_t>(one.host)];
        if (one.state.readable()) CHECK(on_device[static_cast<std::size_t>(one.device)] == content[i]);
        if (one.on_host() || one.clean()) CHECK(on_host[static_cast<std::size_t>(one.host)] == content[i]);
      }
      for (const Moving& one : moving)
        if (one.unwanted)
          ++held, ++device_owners[static_cast<std::size_t>(one.device)],
              ++host_owners[static_cast<std::size_t>(one.host)];
      CHECK(*std::max_element(device_owners.begin(), device_owners.end()) <= 1);
      CHECK(*std::max_element(host_owners.begin(), host_owners.end()) <= 1);
      CHECK(stores.device.used().count() == held * shape.bytes().count());
      CHECK(store.device_used().count() == held);
      CHECK(store.host_used().count() == std::accumulate(host_owners.begin(), host_owners.end(), 0));
      CHECK(store.leaving() == leaving);
    }
  }
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a planted violation is caught at once: sending a block that is still arriving") {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    (void)!freopen("/dev/null", "w", stderr);
    Stores stores(4);
    KvBlock entry;
    PlacedCopy copy;
    const bool begun = stores.store.take(entry) && stores.store.step(entry, BlockEvent::evict) &&
                       stores.store.send({&entry, 1}, false, copy) == 1;
    stores.store.ended({static_cast<std::size_t>(entry.device), 1});
    const bool again = begun && stores.store.sent(entry) && stores.store.fetch({&entry, 1}, true, false, copy) == 1;
    if (!again) _exit(1);
    (void)stores.store.send({&entry, 1}, false, copy); // its bytes have not arrived
    _exit(0);                                          // nothing detected the violation
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}
#endif

} // namespace sluice
