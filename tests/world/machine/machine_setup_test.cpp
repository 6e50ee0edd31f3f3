// SPDX-License-Identifier: Apache-2.0
// What a machine refuses when it is made. KvReach: a machine keeps every block that a later token reads, and no more
// than the ledger counts.
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"

#include "world/local/counting_decoder.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

using namespace sluice;

namespace {

std::string refusal(DecoderConfig config, const MachineSetup& setup) {
  ModelWeights weights;
  weights.config = config;
  const auto made = make_cpu_machine(weights, std::make_unique<testing::CountingDecoder>(config), setup);
  return made ? "" : made.error().line();
}

} // namespace

TEST_CASE("a machine refuses what it would compute wrongly, in one line") {
  MachineSetup setup;
  setup.device_memory = Bytes{1 << 20};
  setup.tier_blocks = LayerBlocks{100};
  setup.gives_back = true;
  CHECK(refusal(tiny_llama_config(), setup).find("gives_back: there is a host tier") == 0);
  DecoderConfig config = tiny_llama_config();
  config.gated_heads = config.qkv_bias = true;
  CHECK(refusal(config, {}).find("the model: heads have gates") == 0);
  config = tiny_llama_config();
  config.shape.rotated = config.shape.head_dim + 2;
  CHECK(refusal(config, {}).find("the model: the part of a head that rotates is 34") == 0);
  config.shape.rotated = 7;
  CHECK(refusal(config, {}).find("the model: 7 numbers of a head rotate") == 0);
  config.position = PositionKind::learned; // no number rotates
  CHECK(refusal(config, {}).find("rotate") == std::string::npos);
}

TEST_CASE("layers keep what later tokens read, and what KvBlocks counts is room for it") {
  DecoderConfig config;
  config.shape.layers = 4;
  config.shape.delta = {.key_heads = 1, .value_heads = 1, .key_dim = 4, .value_dim = 4, .kernel = 2};
  config.shape.delta.layers.insert(3);
  for (const std::int64_t block : {1, 3, 16})
    for (const int window : {1, 2, 5, 16, 17, 33}) {
      CAPTURE(block);
      CAPTURE(window);
      config.windows = {0, window, 2 * window, 0};
      const KvReach reach{config, Tokens{block}};
      CHECK(reach.bounded == LayerSet{}.insert(1).insert(2).insert(3));
      const KvBlocks kept{*kv_groups_of(config, Tokens{block}, Bytes{64 * block}), Tokens{block}};
      CHECK(kept.same_blocks());
      CHECK(kept.movable() == LayerSet{}.insert(0));
      for (std::int64_t tokens = 1; tokens < 100; ++tokens) {
        const std::int64_t blocks = (tokens + block - 1) / block;
        for (int layer = 0; layer < 4; ++layer) {
          const bool state = layer == 3;
          const int width = config.windows[static_cast<std::size_t>(layer)];
          std::int64_t first = tokens; // the first token whose block the next one reads
          if (state) first = tokens - 1;
          if (!state && width == 0) first = 0;
          if (width > 0) first = std::max<std::int64_t>(0, tokens - width + 1);
          CHECK(reach.first(layer, tokens) == first / block);
          const std::int64_t room = kept.room(0, blocks, blocks, LayerSet{}.insert(layer));
          CHECK(blocks - reach.first(layer, tokens) <= room);
        }
      }
    }
}

TEST_CASE("without windows and states nothing is given back") {
  DecoderConfig config;
  config.shape.layers = 3;
  const KvReach reach{config, Tokens{16}};
  CHECK(reach.bounded.empty());
  CHECK(reach.first(2, 1000) == 0);
  CHECK(reach.while_computing(512, 8) == LayerBlocks{0});
  CHECK(kv_groups_of(config, Tokens{16}, Bytes{1024})->uniform(3));
}
