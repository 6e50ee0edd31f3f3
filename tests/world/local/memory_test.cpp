// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/machine/machine_setup.hpp"

#include "world/local/counting_decoder.hpp"
#include <doctest/doctest.h>

#include <vector>

using namespace sluice;

namespace {

/// Three users of 64, 32 and 16 tokens: 4, 2 and 1 blocks in each of 8 layers.
const std::vector<RequestSpec> requests{{.prompt = Tokens{60}, .output = Tokens{4}, .slo = {}},
                                        {.prompt = Tokens{20}, .output = Tokens{12}, .slo = {}},
                                        {.prompt = Tokens{1}, .output = Tokens{15}, .slo = {}}};

struct Divided {
  ModelWeights weights = tiny_llama();
  testing::CountingDecoder decoder{weights.config};
  MachineSetup setup;
  LocalMemory memory;

  explicit Divided(const WantedMemory& wanted) {
    setup.limits.batch = 2;
    setup.limits.batch_tokens = Tokens{64};
    memory = divide_memory(weights, decoder, requests, wanted, setup);
  }
};

} // namespace

TEST_CASE("the longest requests of a batch are counted, in any order") {
  CHECK(longest_batch(requests, Tokens{16}, 8, 1) == LayerBlocks{32});
  CHECK(longest_batch(requests, Tokens{16}, 8, 2) == LayerBlocks{48});
  CHECK(longest_batch(requests, Tokens{16}, 8, 9) == LayerBlocks{56});
  CHECK(longest_batch({}, Tokens{16}, 8, 9) == LayerBlocks{0});
}

TEST_CASE("by default the device has room for the longest batch, and the host for all requests") {
  const Divided all{{}};
  CHECK(all.memory.block == Bytes{16 << 10});
  CHECK(all.memory.weights == all.weights.outer_bytes() + all.weights.layout.bytes * 8);
  CHECK(all.memory.buffers == iteration_buffers(all.decoder, all.setup));
  CHECK(all.memory.kv == LayerBlocks{48});
  CHECK(all.memory.host == LayerBlocks{56});
  CHECK(all.memory.all == LayerBlocks{56});
  CHECK(all.memory.device == all.memory.with(LayerBlocks{48}));
  CHECK(all.setup.device_memory == all.memory.device);
  CHECK(all.setup.host_blocks == all.memory.host);
}

TEST_CASE("requested sizes are kept, and the machine takes no more than it can use") {
  const Divided kv{{.kv = Bytes{10 * (16 << 10) + 1}, .host = Bytes{3 * (16 << 10) - 1}}};
  CHECK(kv.memory.kv == LayerBlocks{10});
  CHECK(kv.memory.host == LayerBlocks{2});

  const Divided small{{.device = Bytes{1 << 20}}}; // less than the weights
  CHECK(small.memory.device == Bytes{1 << 20});
  CHECK(small.memory.kv < LayerBlocks{0});

  const Divided large{{.device = Bytes{std::int64_t{1} << 40}, .host = Bytes{std::int64_t{1} << 40}}};
  CHECK(large.memory.device == Bytes{std::int64_t{1} << 40});
  CHECK(large.setup.device_memory == large.memory.with(LayerBlocks{2 * 56 + 8}));
  CHECK(large.memory.kv == LayerBlocks{2 * 56 + 8});
  CHECK(large.memory.host == LayerBlocks{1 << 26});
  CHECK(large.setup.host_blocks == LayerBlocks{2 * 56 + 8});
}

TEST_CASE("an engine gets the sizes of the divided memory") {
  const Divided all{{}};
  const Geometry geometry = local_geometry(all.weights, all.setup.limits.block_tokens);
  CHECK(geometry.layers == 8);
  CHECK(geometry.layer_block_bytes == all.memory.block);
  CHECK(geometry.layer_weight_bytes == all.weights.layout.bytes);
}

TEST_CASE("layers that give blocks back need room for what they keep alone") {
  const ModelWeights weights = tiny_delta(); // two layers keep all blocks, six the newest
  const testing::CountingDecoder decoder{weights.config};
  const Bytes block{kv_block_floats(weights.config.shape, Tokens{16}) * 4};
  const KvBlocks kept{*kv_groups_of(weights.config, Tokens{16}, block), Tokens{16}};
  CHECK(longest_batch(requests, Tokens{16}, 8, 1, kept) == LayerBlocks{2 * 4 + 6});
  CHECK(longest_batch(requests, Tokens{16}, 8, 3, kept) == LayerBlocks{2 * (4 + 2 + 1) + 3 * 6});
  MachineSetup setup;
  setup.limits.batch = 2;
  setup.limits.batch_tokens = Tokens{64};
  const LocalMemory memory = divide_memory(cpu_needs(weights, decoder, setup), 8, requests, {}, setup, kept);
  CHECK(memory.block == block);
  CHECK(memory.kv == LayerBlocks{2 * (4 + 2) + 2 * 6});
  CHECK(memory.host == LayerBlocks{2 * 7 + 18});
}
