// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/world/machine/released_blocks.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace sluice {

TEST_CASE("a number has the blocks that were computed last, until it is taken, and only for its tokens") {
  constexpr KvBlockShape shape{4, 32, 4};
  DeviceMemory memory(shape.bytes() * 8);
  KvStore store(shape, memory, LayerBlocks{8}, 8);
  ReleasedBlocks released(store);
  BlockTable table;
  table.grow(2);
  REQUIRE(store.take(table, 0, 2) == 2);
  const std::int32_t first = table[0].device;
  released.put(5, {{1, 2}, {first, first + 1}, {}});
  CHECK(released.find(5, {1, 3}) == nullptr);
  CHECK(released.find(4, {1, 2}) == nullptr);
  CHECK(released.find(6, {1, 2}) == nullptr);
  REQUIRE(released.find(5, {1, 2}) != nullptr);
  table.each(0, 2, [&](BlockRun& run) { store.step(run, BlockEvent::release); });
  CHECK(store.device_used() == LayerBlocks{2}); // the number's
  released.put(5, {{1, 4}, {first, first + 1}, {}}); // the same bytes may be named anew
  CHECK(released.find(5, {1, 2}) == nullptr);
  CHECK(store.device_used() == LayerBlocks{2});
  released.forget(5);
  released.forget(5);
  CHECK(released.find(5, {1, 4}) == nullptr);
  CHECK(store.device_used() == LayerBlocks{0});
  CHECK(memory.free() == memory.size());
}

TEST_CASE("a block is free when neither a sequence nor a number holds it, in whatever order they give it up") {
  constexpr KvBlockShape shape{4, 32, 4};
  constexpr std::int64_t blocks = 24;
  Random random(3);
  DeviceMemory memory(shape.bytes() * blocks);
  KvStore store(shape, memory, LayerBlocks{blocks}, blocks);
  ReleasedBlocks released(store);
  std::vector<BlockTable> sequences(6);
  std::map<std::uint32_t, std::int32_t> numbers; ///< the reference: each number's block
  std::int64_t shared = 0;
  for (int step = 0; step < 4000; ++step) {
    BlockTable& table = sequences[random.below(sequences.size())];
    const auto number = static_cast<std::uint32_t>(random.below(10));
    if (table.size() > 0 && random.below(2) == 0) { // it leaves, and may be found by a number
      if (table[0].exists() && random.below(3) > 0) {
        released.put(number, {{number, 0}, {table[0].device}, {}});
        numbers[number] = table[0].device;
      }
      table.each(0, table.size(), [&](BlockRun& run) { store.step(run, BlockEvent::release); });
      table = BlockTable{};
    } else if (table.size() == 0) {
      table.grow(1);
      const ReleasedBlocks::Entry* const entry = released.find(number, {number, 0});
      CHECK((entry != nullptr) == numbers.contains(number));
      if (entry != nullptr) {
        CHECK(entry->device.front() == numbers[number]);
        store.share_on_device(table[0], entry->device.front());
        ++shared;
      } else if (store.take(table, 0, 1) == 0) {
        table = BlockTable{};
      }
    } else {
      released.forget(number);
      numbers.erase(number);
    }
    std::vector<bool> used(static_cast<std::size_t>(blocks));
    for (const auto& [of, block] : numbers) used[static_cast<std::size_t>(block)] = true;
    for (BlockTable& one : sequences)
      one.each(0, one.size(), [&](const BlockRun& run) { used[static_cast<std::size_t>(run.device)] = true; });
    std::int64_t count = 0;
    for (const bool one : used) count += one ? 1 : 0;
    REQUIRE(store.device_used().count() == count);
    REQUIRE(store.free_blocks() == blocks - count);
  }
  CHECK(shared > 100);
}

} // namespace sluice
