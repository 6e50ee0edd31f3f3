// SPDX-License-Identifier: Apache-2.0
// A runner's timer holds the first layers, which stand for all: it refuses a model whose layers are of several kinds.
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/world/stream/measure_runner.hpp"

#include "support/prompt_memory.hpp"
#include <doctest/doctest.h>

#include <memory>

TEST_CASE("a runner's timer refuses layers of several kinds in one line, and reserves nothing") {
  using namespace sluice;
  for (const ModelWeights& weights : {tiny_delta(), tiny_latent_experts()}) {
    const auto memory = std::make_shared<testing::PromptMemory>();
    const auto made = RunnerTimer<testing::PromptMemory>::make(memory, nullptr, weights, {});
    REQUIRE_FALSE(made);
    CHECK(made.error().line() ==
          "the model: its layers are of 2 kinds; expected layers that are all alike, of which the first stand for all");
    CHECK(memory->device_arena() == nullptr);
  }
}
