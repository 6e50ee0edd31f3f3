// SPDX-License-Identifier: Apache-2.0
// The KV memory that an engine gets: for any weights plan within it, every block and slot fits.
#include "sluice/core/random.hpp"
#include "sluice/policy/weights/weights.hpp"
#include "sluice/world/machine/block_pool.hpp"
#include "sluice/world/machine/weight_store.hpp"
#include "sluice/world/stream/stream_memory.hpp"

#include "support/small_models.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

using namespace sluice;

TEST_CASE("homes and slots in whole blocks leave the KV memory that the engine counts on, whatever share streams") {
  Random random(1);
  std::int64_t most_rounded = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    ModelWeights weights = testing::small_weights(testing::small_models[random.below(4)], ElementType::bf16);
    const int layers = weights.config.shape.layers;
    MachineSetup setup;
    setup.limits.block_tokens = Tokens{static_cast<std::int64_t>(1 + random.below(200))};
    setup.device_memory = Bytes{static_cast<std::int64_t>(200'000 + random.below(500'000))};
    const Bytes workspace{static_cast<std::int64_t>(random.below(10'000))};
    const Bytes block = kv_block_shape(weights.config.shape, setup.limits.block_tokens, 2).bytes();
    const LayerBlocks kv = stream_kv_blocks(weights, workspace, 2, setup);

    const Geometry geometry{layers, block, weights.layout.bytes, Bytes{0}};
    const int streamed = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(layers)));
    const int slots = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(streamed)));
    const double share = random.below(3) == 0 ? 1 : random.uniform();
    const WeightsPlan plan = WeightsLevel::of(geometry, LayerSet::all(streamed), slots, share).plan;
    const std::int64_t wanted = (kv + plan.freed).count();
    if (wanted < 0) continue;

    DeviceMemory memory(setup.device_memory);
    REQUIRE(memory.take(workspace));
    const Bytes outer = bytes_beside(weights, workspace) - workspace;
    WeightStore store(std::move(weights), memory, outer, block);
    REQUIRE(store.load(plan, [](const PlacedCopy&) {}).ok());
    const std::int64_t left = (memory.free() - store.to_take()) / block;
    CHECK(left >= wanted);
    most_rounded = std::max(most_rounded, layers - (left - wanted));
  }
  CHECK_MESSAGE(most_rounded == 3, "blocks that parts took beyond whole layers: one for each of three");
}

TEST_CASE("a memory that is too small reports the blocks that it lacks") {
  const ModelWeights weights = testing::small_weights(testing::SmallModel::opt, ElementType::bf16);
  MachineSetup setup;
  const auto blocks = [&](Bytes memory) {
    setup.device_memory = memory;
    return stream_kv_blocks(weights, Bytes{1000}, 2, setup).count();
  };
  const Bytes block = kv_block_shape(weights.config.shape, setup.limits.block_tokens, 2).bytes();
  const std::int64_t none = blocks(Bytes{0});
  CHECK(none < 0);
  for (std::int64_t more = -none - 2; more < -none + 3; ++more) {
    CHECK(blocks(block * more) == none + more);
    CHECK(blocks(block * more + block - Bytes{1}) <= none + more + 1);
  }
}

TEST_CASE("each staged layer takes its image's blocks of host memory once") {
  const ModelWeights weights = testing::small_weights(testing::SmallModel::llama, ElementType::bf16);
  for (const std::int64_t tokens : {1, 16, 100}) {
    MachineSetup setup;
    setup.limits.block_tokens = Tokens{tokens};
    setup.host_blocks = LayerBlocks{7};
    const Bytes block = kv_block_shape(weights.config.shape, setup.limits.block_tokens, 2).bytes();
    const Bytes workspace{1000};
    setup.device_memory = bytes_beside(weights, workspace) + block * 5 + Bytes{1};
    const auto host_bytes = [&] { return stream_host_bytes(weights, workspace, 2, setup); };
    CHECK(host_bytes() == block * (7 + 5));                    // and whatever may be in flight
    setup.staged = LayerSet{}.insert(0).insert(2).insert(100); // the model has three
    const Bytes images = host_bytes() - block * 12;
    CHECK(images >= weights.layout.bytes * 2);
    CHECK(images < (weights.layout.bytes + block) * 2);

    const HostImages staged(12, setup, weights, block);
    CHECK_FALSE(staged.find(1, 0, 1));
    std::size_t end = 12;
    for (const int layer : {0, 2}) { // after the host's blocks, one after another
      const std::optional<BlockPiece> first = staged.find(layer, 0, 1);
      const std::optional<BlockPiece> last = staged.find(layer, weights.layout.bytes.count() - 1, 1);
      REQUIRE((first && last));
      CHECK(first->blocks.first == end);
      CHECK(first->at == 0);
      CHECK(last->blocks.count == 1);
      CHECK((static_cast<std::int64_t>(last->blocks.first - end) * block).count() + last->at ==
            weights.layout.bytes.count() - 1);
      end = last->blocks.end();
    }
    CHECK(staged.arena_blocks() == end);
  }
}
