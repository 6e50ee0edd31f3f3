// SPDX-License-Identifier: Apache-2.0
// Which engines accept requests whose KV came over a network.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/apt_serve.hpp"
#include "sluice/engine/systems/ellm.hpp"
#include "sluice/engine/systems/hcache.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace sluice;

namespace arrived_kv_test {

/// The error's line for a request that arrives with KV; empty if the engine accepts it.
template <class E>
std::string refusal() {
  auto engine = E::make(configure<E>({.model = llama3_8b(), .device = a100_80(), .kv_blocks = TokenBlocks{700}}));
  REQUIRE(engine);
  REQUIRE(engine->submit({Seconds{0}, Tokens{100}, Tokens{10}, {}}));
  const auto arrives = engine->submit({Seconds{0}, Tokens{100}, Tokens{10}, {}}, {}, Tokens{0}, Tokens{99});
  return arrives ? "" : arrives.error().line();
}

TEST_CASE("an engine that rebuilds KV from hidden states refuses KV that arrives without them") {
  CHECK(refusal<VllmRecompute>().empty());
  for (const std::string& line : {refusal<AptServe>(), refusal<Ellm>(), refusal<HCache>()})
    CHECK(line == "request 1: it arrives with KV, without the hidden states to rebuild it from; expected an engine "
                  "that rebuilds no layers");
}

} // namespace arrived_kv_test
