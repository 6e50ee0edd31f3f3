// SPDX-License-Identifier: Apache-2.0
// What a machine refuses when it is made.
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"

#include "world/local/counting_decoder.hpp"
#include <doctest/doctest.h>

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
