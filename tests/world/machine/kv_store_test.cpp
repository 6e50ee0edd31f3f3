// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/world/machine/kv_sequences.hpp"
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
  float* number(const BlockRun& entry, std::int64_t run, std::int64_t token, std::int64_t i) {
    return reinterpret_cast<float*>(device_block(entry.device) + run * shape.run_bytes() + token * shape.token_bytes) +
           i;
  }
  void fill(const BlockRun& entry, std::int64_t token, float value) {
    for (std::int64_t run = 0; run < shape.runs; ++run)
      for (std::int64_t i = 0; i < shape.token_bytes / 4; ++i) *number(entry, run, token, i) = value;
  }
  bool holds(const BlockRun& entry, std::int64_t token, float value) {
    bool all = true;
    for (std::int64_t run = 0; run < shape.runs; ++run)
      for (std::int64_t i = 0; i < shape.token_bytes / 4; ++i) all = all && *number(entry, run, token, i) == value;
    return all;
  }
};

} // namespace

TEST_CASE("a request starts without the plans of the slot's last request") {
  Stores stores(8);
  KvSequences sequences(stores.store, 3);
  const Slot slot{2};
  KvSequence& first = sequences.of(slot, RequestId{1});
  first.settled_for.host = LayerSet::all(3);
  first.settled_for.attended_on_host = true;
  first.preempted = first.leaves_host = true;
  const auto knows_nothing = [](const KvSequence& one) {
    return one.settled_for == Holding{} && !one.preempted && !one.leaves_host;
  };
  CHECK_FALSE(knows_nothing(sequences.of(slot, RequestId{1})));
  sequences.leave(first);
  CHECK(knows_nothing(sequences.of(slot, RequestId{2})));
}

TEST_CASE("a block goes out and returns with its bytes, and only appended tokens go out again") {
  Stores stores(3);
  KvStore& store = stores.store;
  BlockTable table;
  table.grow(1);
  BlockRun& entry = table[0];
  PlacedCopy copy;
  const auto send = [&] {
    REQUIRE(store.step(entry, BlockEvent::evict));
    REQUIRE(store.send(table, 0, 1, false, copy) == 1);
    CHECK(entry.state.transfer == BlockTransfer::sending);
    stores.move(copy);
    store.ended({static_cast<std::size_t>(entry.device), 1});
    REQUIRE(store.sent(entry));
    CHECK(entry.on_host());
  };
  const auto fetch = [&] {
    REQUIRE(store.fetch(table, 0, 1, true, false, copy) == 1);
    CHECK_FALSE(entry.state.readable());
    stores.move(copy);
    store.ended({static_cast<std::size_t>(entry.device), 1});
    REQUIRE(store.arrived(entry));
  };
  REQUIRE(store.take(table, 0, 1) == 1);
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
  BlockTable table, other;
  table.grow(6);
  other.grow(1);
  REQUIRE(store.take(table, 0, 3) == 3);
  REQUIRE(store.take(other, 0, 1) == 1);
  REQUIRE(store.take(table, 1, 3) == 3); // another table's block lies in between
  const auto number_tokens = [&](BlockRun& run) {
    run.tokens = run.first < 5 ? 4 : 1;
    REQUIRE(store.step(run, BlockEvent::evict));
  };
  table.cut(5);
  table.each(0, 6, number_tokens);
  PlacedCopy copy;
  REQUIRE(store.send(table, 0, 6, false, copy) == 3);
  CHECK(copy.device.count == 3);
  CHECK(copy.total() == 3 * shape.bytes().count());
  REQUIRE(store.send(table, 1, 6, false, copy) == 3); // of two runs, since the last block is not full
  table.each(0, 6, [&](BlockRun& run) {
    store.ended({static_cast<std::size_t>(run.device), static_cast<std::size_t>(run.count)});
    REQUIRE(store.sent(run));
  });
  CHECK(store.leaving() == 0);
  table.join();
  CHECK(table.runs().size() == 2);
  // Device blocks come in turn: the last one, then those before the other table's, then those behind it.
  REQUIRE(store.fetch(table, 0, 6, true, false, copy) == 1);
  REQUIRE(store.fetch(table, 1, 6, true, false, copy) == 3);
  CHECK(copy.host_block == table[1].host);
  REQUIRE(store.fetch(table, 2, 6, true, false, copy) == 2);
  CHECK(copy.device.index > other[0].device);
}

TEST_CASE("runs split and join as the blocks in them would") {
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    BlockTable table;
    std::vector<BlockRun> blocks; // the same, each block by itself
    for (int step = 0; step < 60; ++step) {
      const std::int64_t more = static_cast<std::int64_t>(random.below(4));
      table.grow(table.size() + more);
      for (std::int64_t i = 0; i < more; ++i) blocks.push_back({static_cast<std::int32_t>(blocks.size()), 1});
      const auto from = static_cast<std::int64_t>(random.below(blocks.size() + 1));
      const auto to = from + static_cast<std::int64_t>(random.below(blocks.size() + 2));
      const auto tokens = static_cast<std::uint16_t>(random.below(2));
      const auto device = static_cast<std::int32_t>(random.below(3)) - 1; // nowhere, or in a row
      table.each(from, to, [&](BlockRun& run) {
        run.tokens = tokens;
        run.device = device < 0 ? BlockRun::nowhere : 100 * device + run.first;
      });
      for (std::int64_t i = from; i < std::min(to, table.size()); ++i) {
        blocks[static_cast<std::size_t>(i)].tokens = tokens;
        blocks[static_cast<std::size_t>(i)].device =
            device < 0 ? BlockRun::nowhere : 100 * device + static_cast<std::int32_t>(i);
      }
      if (random.below(3) == 0) {
        table.join();
        for (std::size_t run = 1; run < table.runs().size(); ++run) CHECK_FALSE(table[run - 1].joins(table[run]));
      }
      if (random.below(8) == 0) {
        const std::size_t left = random.below(blocks.size() + 1);
        table.shrink(static_cast<std::int64_t>(left));
        blocks.resize(left);
      }
      REQUIRE(table.size() == static_cast<std::int64_t>(blocks.size()));
      for (const BlockRun& block : blocks) {
        const std::size_t at = table.find(block.first);
        const BlockRun& run = table[at];
        REQUIRE(run.first <= block.first);
        REQUIRE(block.first < run.end());
        CHECK(run.tokens == block.tokens);
        CHECK((run.device == BlockRun::nowhere ? block.device : run.device + block.first - run.first) == block.device);
        CHECK((run.device == BlockRun::nowhere) == (block.device == BlockRun::nowhere));
      }
      CHECK(table.find(table.size()) == table.runs().size());
    }
  }
}

TEST_CASE("device blocks that another sequence holds too are not held once") {
  Stores stores(4);
  KvStore& store = stores.store;
  BlockTable one, other;
  const std::int32_t host = store.take_host(-1);
  for (std::int32_t i = 1; i < 3; ++i) REQUIRE(store.take_host(host + i) == host + i);
  for (BlockTable* table : {&one, &other}) {
    table->grow(3);
    store.share((*table)[0], host);
  }
  PlacedCopy copy;
  REQUIRE(store.fetch(one, 0, 3, true, false, copy) == 3);
  CHECK(store.held_once(one[0]) == 3);
  REQUIRE(store.join(other, other.cut(1), 1, true) == 1);
  CHECK(store.held_once(one[0]) == 2);
  CHECK(store.held_once(other[1]) == 0);
  store.ended({static_cast<std::size_t>(one[0].device), 3});
  REQUIRE(store.arrived(one[0]));
  REQUIRE(store.arrived(other[1]));
  store.step(other[1], BlockEvent::release);
  CHECK(store.held_once(one[0]) == 3);
}

/// Random events on runs of a table and their copies' ends, against the contents that each block must have.
TEST_CASE("no order of events loses a byte, shares a block, or takes memory that does not exist") {
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    Stores stores(1 + static_cast<std::int64_t>(random.below(8)));
    KvStore& store = stores.store;
    struct Moving {
      Way way;
      std::int64_t block;
      std::int32_t device, host;
      bool unwanted;
      std::uint64_t bytes; ///< what the source had when the copy began
    };
    constexpr std::size_t blocks = 12;
    BlockTable table;
    table.grow(blocks);
    std::vector<std::uint64_t> content(blocks);
    std::vector<std::uint64_t> on_device(store.device_blocks()), on_host(store.host_blocks());
    std::vector<Moving> moving;
    std::uint64_t next = 1;
    const auto at = [](std::int64_t number) { return static_cast<std::size_t>(number); };
    const auto each_block = [&](const BlockRun& run, const auto& visit) {
      for (std::int32_t i = 0; i < run.count; ++i)
        visit(run.first + i, run.device == BlockRun::nowhere ? run.device : run.device + i,
              run.host == BlockRun::nowhere ? run.host : run.host + i);
    };
    const auto begun = [&](Way way, std::int64_t first, std::int32_t count) {
      table.each(first, first + count, [&](const BlockRun& run) {
        each_block(run, [&](std::int64_t block, std::int32_t device, std::int32_t host) {
          moving.push_back(
              {way, block, device, host, false, way == Way::to_host ? on_device[at(device)] : on_host[at(host)]});
        });
      });
    };
    const auto fill = [&](const BlockRun& run) {
      each_block(run, [&](std::int64_t block, std::int32_t device, std::int32_t) {
        on_device[at(device)] = content[at(block)] = next++;
      });
    };
    for (int step = 0; step < 600; ++step) {
      const auto from = static_cast<std::int64_t>(random.below(blocks));
      const std::int64_t most = 1 + static_cast<std::int64_t>(random.below(blocks - at(from)));
      PlacedCopy copy;
      if (random.below(4) == 0) table.join();
      switch (random.below(9)) {
      case 0:
        if (store.take(table, table.cut(from), most) > 0) {
          BlockRun& taken = table[table.find(from)];
          taken.tokens = 4;
          fill(taken);
        }
        break;
      case 1:
        table.each(from, from + most, [&](BlockRun& run) {
          if (!run.on_device() || !store.step(run, BlockEvent::append)) return;
          CHECK(run.state.writable());
          fill(run);
        });
        break;
      case 2:
        if (table[table.cut(from)].on_host())
          begun(Way::to_device, from, store.fetch(table, table.cut(from), most, random.below(2) == 0, false, copy));
        break;
      case 3:
        if (after(table[table.cut(from)].state, BlockEvent::send))
          begun(Way::to_host, from, store.send(table, table.cut(from), most, false, copy));
        break;
      case 4: { // the oldest copy of a block ends
        if (moving.empty()) break;
        const Moving one = moving.front();
        moving.erase(moving.begin());
        const std::size_t device = at(one.device), host = at(one.host);
        store.ended({device, 1});
        CHECK((one.way == Way::to_host ? on_device[device] : on_host[host]) == one.bytes); // nobody wrote the source
        (one.way == Way::to_host ? on_host[host] : on_device[device]) = one.bytes;
        if (one.unwanted)
          store.ended_unwanted({device, 1}, {host, 1});
        else if (one.way == Way::to_host)
          CHECK(store.sent(table.one(one.block)));
        else
          CHECK(store.arrived(table.one(one.block)));
        break;
      }
      case 5:
        table.each(from, from + most, [&](BlockRun& run) {
          for (Moving& one : moving)
            if (one.block >= run.first && one.block < run.end() && run.state.in_transfer()) one.unwanted = true;
          store.step(run, BlockEvent::release);
        });
        break;
      default: {
        constexpr BlockEvent events[] = {BlockEvent::pass,  BlockEvent::keep,         BlockEvent::use,
                                         BlockEvent::evict, BlockEvent::give_up_copy, BlockEvent::copy_ahead};
        const BlockEvent event = events[random.below(std::size(events))];
        table.each(from, from + most, [&](BlockRun& run) { store.step(run, event); });
      }
      }
      std::int64_t held = 0, leaving = 0;
      std::vector<int> device_owners(on_device.size()), host_owners(on_host.size());
      for (const BlockRun& run : table.runs())
        each_block(run, [&](std::int64_t block, std::int32_t device, std::int32_t host) {
          if (run.on_device()) ++held, ++device_owners[at(device)];
          if (run.on_device() && run.leaves()) ++leaving;
          if (run.state.has_host_place()) ++host_owners[at(host)];
          if (run.state.readable()) CHECK(on_device[at(device)] == content[at(block)]);
          if (run.on_host() || run.clean()) CHECK(on_host[at(host)] == content[at(block)]);
        });
      for (const Moving& one : moving)
        if (one.unwanted) ++held, ++device_owners[at(one.device)], ++host_owners[at(one.host)];
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
    BlockTable table;
    table.grow(1);
    BlockRun& entry = table[0];
    PlacedCopy copy;
    const bool begun = stores.store.take(table, 0, 1) == 1 && stores.store.step(entry, BlockEvent::evict) &&
                       stores.store.send(table, 0, 1, false, copy) == 1;
    stores.store.ended({static_cast<std::size_t>(entry.device), 1});
    const bool again = begun && stores.store.sent(entry) && stores.store.fetch(table, 0, 1, true, false, copy) == 1;
    if (!again) _exit(1);
    (void)stores.store.send(table, 0, 1, false, copy); // its bytes have not arrived
    _exit(0);                                          // nothing detected the violation
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}
#endif

TEST_CASE(
    "a block that is taken on the host follows the one before it, and only its new tokens come back from a copy") {
  Stores stores(4, 2); // two may stay on the host, and as many as the device holds pass through
  KvStore& store = stores.store;
  BlockTable table;
  table.grow(7);
  REQUIRE(store.take_on_host(table, 0));
  REQUIRE(store.take_on_host(table, 1));
  CHECK(table.one(1).host == table.one(0).host + 1);
  CHECK(store.host_used() == LayerBlocks{2});
  CHECK(store.device_used() == LayerBlocks{0});
  CHECK(stores.device.used() == Bytes{0});
  CHECK_FALSE(store.take_on_host(table, 1)); // it exists
  CHECK(store.host_used() == LayerBlocks{2});
  // The host has three of four tokens of the second block; the device adds the fourth, and sends only that.
  REQUIRE(store.append_on_host(table, 1, 3));
  const BlockRun run = table.one(1);
  for (const std::int64_t i : {0, 1, 2})
    for (std::int64_t part = 0; part < shape.runs; ++part)
      std::memset(stores.host_block(run.host) + part * shape.run_bytes() + i * shape.token_bytes, 1, 32);
  PlacedCopy copy;
  REQUIRE(store.fetch(table, table.find(1), 1, true, false, copy) == 1);
  CHECK_FALSE(store.append_on_host(table, 1, 4)); // it is the source of a copy
  stores.move(copy);
  store.ended({static_cast<std::size_t>(copy.device.index), 1});
  CHECK(store.arrived(table.one(1)));
  CHECK(store.step(table.one(1), BlockEvent::append));
  table.one(1).tokens = 4;
  CHECK(store.step(table.one(1), BlockEvent::evict));
  REQUIRE(store.send(table, table.find(1), 1, false, copy) == 1);
  CHECK(copy.bytes == shape.token_bytes);
  CHECK(copy.host_at == 3 * shape.token_bytes);
  // No room: the request is lost, and no other loses its place.
  for (std::int64_t block = 2; block < 6; ++block) CHECK(store.take_on_host(table, block));
  CHECK_FALSE(store.take_on_host(table, 6));
  CHECK_FALSE(table.one(6).exists());
  for (BlockRun& one : table.runs()) store.step(one, BlockEvent::release);
}

} // namespace sluice
