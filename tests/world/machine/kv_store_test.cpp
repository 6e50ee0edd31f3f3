// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/world/machine/kv_store.hpp"
#include "sluice/world/machine/link_schedule.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
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
  REQUIRE(store.take(entry));
  for (std::int64_t token = 0; token < 2; ++token) stores.fill(entry, token, static_cast<float>(token + 1));
  entry.tokens = 2;
  std::optional<PlacedCopy> copy;
  REQUIRE(store.send(entry, true, copy));
  REQUIRE(copy);
  CHECK(copy->total() == shape.bytes().count());
  CHECK(store.state(entry) == BlockState::sending);
  stores.move(*copy);
  REQUIRE(store.sent(entry));
  CHECK(entry.on_host());
  CHECK(stores.device.used().count() == 0);

  const std::optional<PlacedCopy> back = store.fetch(entry);
  REQUIRE(back);
  CHECK_FALSE(store.readable(entry));
  stores.move(*back);
  REQUIRE(store.fetched(entry));
  CHECK(stores.holds(entry, 1, 2));
  REQUIRE(store.reopen(entry));
  CHECK(store.writable(entry));
  stores.fill(entry, 2, 3);
  entry.tokens = 3;
  REQUIRE(store.send(entry, true, copy));
  REQUIRE(copy);
  CHECK_MESSAGE(copy->total() == shape.runs * shape.token_bytes, "one token of each run");
  stores.move(*copy);
  REQUIRE(store.sent(entry));
  const std::optional<PlacedCopy> again = store.fetch(entry);
  REQUIRE(again);
  stores.move(*again);
  REQUIRE(store.fetched(entry));
  for (std::int64_t token = 0; token < 3; ++token) CHECK(stores.holds(entry, token, static_cast<float>(token + 1)));
  store.release(entry);
  CHECK(stores.device.used().count() == 0);
  CHECK(store.host_used().count() == 0);
}

TEST_CASE("no order of operations takes memory that does not exist, or keeps memory that it returned") {
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    Stores stores(1 + static_cast<std::int64_t>(random.below(6)));
    KvStore& store = stores.store;
    std::vector<KvBlock> table(8);
    for (int step = 0; step < 400; ++step) {
      KvBlock& entry = table[random.below(table.size())];
      std::optional<PlacedCopy> copy;
      const BlockState before = store.state(entry);
      switch (random.below(8)) {
      case 0:
        if (store.take(entry)) CHECK(store.writable(entry));
        break;
      case 1:
        CHECK(store.seal(entry) == (before == BlockState::filling));
        break;
      case 2:
        if (store.fetch(entry)) CHECK(store.state(entry) == BlockState::arriving);
        break;
      case 3:
        if (before == BlockState::arriving) CHECK(store.fetched(entry));
        break;
      case 4: {
        const bool may = before == BlockState::full || before == BlockState::filling || before == BlockState::clean ||
                         before == BlockState::sending;
        if (store.send(entry, random.below(2) == 0, copy)) CHECK(may);
        break;
      }
      case 5:
        if (before == BlockState::sending) CHECK(store.sent(entry));
        break;
      case 6:
        CHECK(store.reopen(entry) == (before == BlockState::clean));
        break;
      default:
        if (before != BlockState::sending && before != BlockState::arriving) store.release(entry);
      }
      std::int64_t held = 0;
      for (const KvBlock& one : table) held += one.on_device() ? 1 : 0;
      CHECK(stores.device.used().count() == held * shape.bytes().count());
      CHECK(store.device_used().count() == held);
    }
    for (KvBlock& entry : table) {
      if (store.state(entry) == BlockState::sending) store.sent(entry);
      if (store.state(entry) == BlockState::arriving) store.fetched(entry);
      store.release(entry);
    }
    CHECK(stores.device.used().count() == 0);
    CHECK(store.host_used().count() == 0);
  }
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a planted violation is caught at once: sending a block that is still arriving") {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    (void)!freopen("/dev/null", "w", stderr);
    Stores stores(4);
    KvSequences sequences(stores.store, 1);
    WeightStore weights(ModelWeights{}, stores.device, Bytes{0}, Bytes{1});
    LinkSchedule schedule(stores.store, sequences, weights, 1, true, CopiesCount::when_ended);
    KvSequence& sequence = sequences.of(Slot{0}, RequestId{0});
    sequence.tables[0].resize(1);
    KvBlock& entry = sequence.tables[0][0];
    std::optional<PlacedCopy> copy;
    bool begun = stores.store.take(entry) && stores.store.seal(entry) && stores.store.send(entry, true, copy) &&
                 stores.store.sent(entry) && stores.store.fetch(entry).has_value();
    if (!begun) _exit(1);
    schedule.send(sequences.ref(sequence, 0, 0), true); // its bytes have not arrived
    (void)schedule.next(Way::to_host);
    _exit(0); // nothing detected the violation
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}
#endif

} // namespace sluice
