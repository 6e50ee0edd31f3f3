// SPDX-License-Identifier: Apache-2.0
// What an engine asks its Caching policy if a real backend has the tiers, and what it does with the answers.
#include "sluice/engine/caching.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/simulated.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

using namespace sluice;

namespace host_caching {

/// An engine of an 8B model on a simulated device, behind the interface of real backends.
template <class E>
E engine_on(std::shared_ptr<BackendWorld> world, typename E::caching_type caching = {}) {
  Limits limits;
  limits.batch = 8;
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{1'000}, limits};
  const auto from = configure<VllmSwap>(server);
  typename E::Config config{.limits = from.limits,
                            .geometry = from.geometry,
                            .device_blocks = from.device_blocks,
                            .host_blocks = from.host_blocks,
                            .cost = from.cost,
                            .backend = Cpu{std::move(world)}};
  config.caching = caching;
  auto engine = E::make(std::move(config));
  REQUIRE(engine);
  return *std::move(engine);
}
std::shared_ptr<BackendWorld> simulated_world() {
  const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{1'000}, {}};
  return world_of(BasicSimulated{configure<VllmSwap>(server).cost});
}

} // namespace host_caching

TEST_CASE("a policy that loads another way than layer by layer ends the run with a sentence, if it loads anything") {
  using E = With<VllmSwap, Cpu, WriteThrough>;
  for (const LoadMode mode : {LoadMode::layerwise, LoadMode::whole, LoadMode::ahead, LoadMode::beside})
    for (const bool found : {false, true}) {
      WriteThrough caching;
      caching.mode = mode;
      E engine = host_caching::engine_on<E>(host_caching::simulated_world(), caching);
      REQUIRE(engine.submit({.arrival = Seconds{0}, .prompt = Tokens{100}, .output = Tokens{2}, .slo = {}}, {},
                            Tokens{found ? 64 : 0}));
      const bool runs = mode == LoadMode::layerwise || !found;
      while (engine.alive() > 0 && engine.step() == Stepped::ran) {}
      CHECK((engine.alive() == 0) == runs);
      CHECK(engine.status().ok() == runs);
      if (runs) continue;
      CHECK(engine.status().error().where.find("WriteThrough") != std::string::npos);
      CHECK(engine.status().error().what ==
            std::string{"reuse() loads by LoadMode::"} + name(mode) + " on a real-time backend");
      CHECK(engine.status().error().expected == "LoadMode::layerwise: its host's KV comes layer by layer");
    }
}
