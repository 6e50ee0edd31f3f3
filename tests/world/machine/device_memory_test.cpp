// SPDX-License-Identifier: Apache-2.0
// DeviceMemory: counts every byte, also when many threads use it, and never gives out more memory than exists.
#include "sluice/core/random.hpp"
#include "sluice/world/machine/block_pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>
#include <vector>

using namespace sluice;

TEST_CASE("random calls of take and give match a reference's counts") {
  DeviceMemory memory{Bytes{1000}};
  Random random{3};
  std::vector<std::int64_t> held;
  std::int64_t used = 0, peak = 0;
  for (int i = 0; i < 5000; ++i) {
    if (random.below(2) == 0 || held.empty()) {
      const auto bytes = static_cast<std::int64_t>(random.below(400));
      const bool fits = used + bytes <= 1000;
      REQUIRE(memory.take(Bytes{bytes}) == fits);
      if (fits) held.push_back(bytes), used += bytes;
    } else {
      memory.give(Bytes{held.back()});
      used -= held.back();
      held.pop_back();
    }
    peak = std::max(peak, used);
    REQUIRE(memory.used() == Bytes{used});
    REQUIRE(memory.free() == Bytes{1000 - used});
    REQUIRE(memory.peak() == Bytes{peak});
  }
  CHECK(memory.size() == Bytes{1000});
}

TEST_CASE("the last byte can be taken, and a size that would overflow is refused") {
  DeviceMemory memory{Bytes{10}};
  CHECK_FALSE(memory.take(Bytes{std::numeric_limits<std::int64_t>::max()}));
  CHECK(memory.take(Bytes{10}));
  CHECK_FALSE(memory.take(Bytes{std::numeric_limits<std::int64_t>::max()}));
  CHECK_FALSE(memory.take(Bytes{1}));
  CHECK(memory.take(Bytes{0}));
  CHECK(memory.free() == Bytes{0});
}

TEST_CASE("concurrent threads never hold more memory than exists, and lose none") {
  constexpr std::int64_t size = 64;
  DeviceMemory memory{Bytes{size}};
  std::atomic<std::int64_t> held{0}, most{0}, refused{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Random random{t};
      for (int i = 0; i < 5000; ++i) {
        const auto bytes = static_cast<std::int64_t>(1 + random.below(40));
        if (!memory.take(Bytes{bytes})) {
          refused.fetch_add(1);
          continue;
        }
        const std::int64_t now = held.fetch_add(bytes) + bytes;
        std::int64_t seen = most.load();
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        if (i % 16 == 0) std::this_thread::yield();
        held.fetch_sub(bytes);
        memory.give(Bytes{bytes});
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(memory.used() == Bytes{0});
  CHECK(most.load() <= size);
  CHECK(memory.peak() <= Bytes{size});
  CHECK(memory.peak() >= Bytes{most.load()});
}
