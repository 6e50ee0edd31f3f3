// SPDX-License-Identifier: Apache-2.0
#include "sluice/backend/cpu/kv_store.hpp"
#include "sluice/backend/cpu/link_schedule.hpp"
#include "sluice/core/random.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
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
  explicit Stores(std::int64_t blocks, std::int64_t host = 64)
      : device(Bytes{blocks * shape.bytes().count()}), store(*KvStore::make(shape, device, LayerBlocks{host})) {}
};

void move(const Copy& copy) {
  for (std::int64_t row = 0; row < copy.rows; ++row)
    std::memcpy(copy.to + row * copy.to_stride, copy.from + row * copy.from_stride,
                static_cast<std::size_t>(copy.bytes));
}
void fill(const KvStore& store, const KvCell& cell, std::int64_t token, float value) {
  for (std::int64_t run = 0; run < shape.runs; ++run)
    for (std::int64_t i = 0; i < shape.token_bytes / 4; ++i)
      store.data(cell)[(run * shape.run_bytes() + token * shape.token_bytes) / 4 + i] = value;
}
bool holds(const KvStore& store, const KvCell& cell, std::int64_t token, float value) {
  bool all = true;
  for (std::int64_t run = 0; run < shape.runs; ++run)
    for (std::int64_t i = 0; i < shape.token_bytes / 4; ++i)
      all = all && store.data(cell)[(run * shape.run_bytes() + token * shape.token_bytes) / 4 + i] == value;
  return all;
}

} // namespace

TEST_CASE("a block goes out and comes back with its bytes, and what was appended alone goes out again") {
  Stores stores(3);
  KvStore& store = stores.store;
  KvCell cell;
  REQUIRE(store.take(cell));
  for (std::int64_t token = 0; token < 2; ++token) fill(store, cell, token, static_cast<float>(token + 1));
  cell.tokens = 2;
  std::optional<Copy> copy;
  REQUIRE(store.send(cell, true, copy));
  REQUIRE(copy);
  CHECK(copy->total() == shape.bytes().count());
  CHECK(store.state(cell) == BlockState::sending);
  move(*copy);
  REQUIRE(store.sent(cell));
  CHECK(cell.on_host());
  CHECK(stores.device.used().count() == 0);

  const std::optional<Copy> back = store.fetch(cell);
  REQUIRE(back);
  CHECK_FALSE(store.readable(cell));
  move(*back);
  REQUIRE(store.fetched(cell));
  CHECK(holds(store, cell, 1, 2));
  REQUIRE(store.reopen(cell));
  CHECK(store.writable(cell));
  fill(store, cell, 2, 3);
  cell.tokens = 3;
  REQUIRE(store.send(cell, true, copy));
  REQUIRE(copy);
  CHECK_MESSAGE(copy->total() == shape.runs * shape.token_bytes, "one token of each run");
  move(*copy);
  REQUIRE(store.sent(cell));
  const std::optional<Copy> again = store.fetch(cell);
  REQUIRE(again);
  move(*again);
  REQUIRE(store.fetched(cell));
  for (std::int64_t token = 0; token < 3; ++token) CHECK(holds(store, cell, token, static_cast<float>(token + 1)));
  store.release(cell);
  CHECK(stores.device.used().count() == 0);
  CHECK(store.host_used().count() == 0);
}

TEST_CASE("no order of operations takes memory that does not exist, or keeps what was given back") {
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    Stores stores(1 + static_cast<std::int64_t>(random.below(6)));
    KvStore& store = stores.store;
    std::vector<KvCell> cells(8);
    for (int step = 0; step < 400; ++step) {
      KvCell& cell = cells[random.below(cells.size())];
      std::optional<Copy> copy;
      const BlockState before = store.state(cell);
      switch (random.below(8)) {
      case 0:
        if (store.take(cell)) CHECK(store.writable(cell));
        break;
      case 1:
        CHECK(store.seal(cell) == (before == BlockState::filling));
        break;
      case 2:
        if (store.fetch(cell)) CHECK(store.state(cell) == BlockState::arriving);
        break;
      case 3:
        if (before == BlockState::arriving) CHECK(store.fetched(cell));
        break;
      case 4: {
        const bool may = before == BlockState::full || before == BlockState::filling || before == BlockState::clean ||
                         before == BlockState::sending;
        if (store.send(cell, random.below(2) == 0, copy)) CHECK(may);
        break;
      }
      case 5:
        if (before == BlockState::sending) CHECK(store.sent(cell));
        break;
      case 6:
        CHECK(store.reopen(cell) == (before == BlockState::clean));
        break;
      default:
        if (before != BlockState::sending && before != BlockState::arriving) store.release(cell);
      }
      std::int64_t held = 0;
      for (const KvCell& one : cells) held += one.on_device() ? 1 : 0;
      CHECK(stores.device.used().count() == held * shape.bytes().count());
      CHECK(store.device_used().count() == held);
    }
    for (KvCell& cell : cells) {
      if (store.state(cell) == BlockState::sending) store.sent(cell);
      if (store.state(cell) == BlockState::arriving) store.fetched(cell);
      store.release(cell);
    }
    CHECK(stores.device.used().count() == 0);
    CHECK(store.host_used().count() == 0);
  }
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a planted violation is caught at once: what is arriving is sent") {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    (void)!freopen("/dev/null", "w", stderr);
    Stores stores(4);
    KvSequences sequences(stores.store, 1);
    WeightStore weights(ModelWeights{}, stores.device);
    LinkSchedule schedule(stores.store, sequences, weights, 1, true);
    KvSequence& sequence = sequences.of(Slot{0}, RequestId{0});
    sequence.cells[0].resize(1);
    KvCell& cell = sequence.cells[0][0];
    std::optional<Copy> copy;
    bool begun = stores.store.take(cell) && stores.store.seal(cell) && stores.store.send(cell, true, copy) &&
                 stores.store.sent(cell) && stores.store.fetch(cell).has_value();
    if (!begun) _exit(1);
    schedule.send(sequences.ref(sequence, 0, 0), true); // its bytes are not there yet
    (void)schedule.next(Way::to_host);
    _exit(0); // nobody noticed
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}
#endif

} // namespace sluice
