// SPDX-License-Identifier: Apache-2.0
// Cuda: engines name it without CUDA, and run in any world.
#include "sluice/engine/engine.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/world/cuda/cuda.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/simulated.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <type_traits>
#include <utility>

using namespace sluice;

namespace {

using Plain = Engine<>;
using OnGpu = With<Plain, Cuda>;
static_assert(std::is_same_v<OnGpu::backend_type, Cuda>);
static_assert(std::is_base_of_v<RealBackend, Cuda>);

} // namespace

TEST_CASE("an engine whose backend is Cuda runs in any world") {
  Limits limits;
  limits.batch = 4;
  limits.max_context = Tokens{1024};
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{200}, limits};
  Plain::Config from = configure<Plain>(server);
  auto engine = OnGpu::make({.limits = from.limits,
                             .geometry = from.geometry,
                             .device_blocks = from.device_blocks,
                             .host_blocks = from.host_blocks,
                             .cost = from.cost,
                             .backend = Cuda{world_of(BasicSimulated{from.cost})}});
  REQUIRE(engine);
  RequestSpec spec;
  spec.prompt = Tokens{100};
  spec.output = Tokens{10};
  for (int i = 0; i < 3; ++i) REQUIRE(engine->submit(spec));
  while (engine->step() == Stepped::ran) {
  }
  CHECK(engine->status().ok());
  CHECK(engine->alive() == 0);
  CHECK(engine->now().count() > 0);
}
