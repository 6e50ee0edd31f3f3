// SPDX-License-Identifier: Apache-2.0
// A step that decodes for real allocates nothing either, on this machine's processor.
#include "sluice/backend/cpu/cpu.hpp"
#include "sluice/backend/cpu/cpu_machine.hpp"
#include "sluice/checkpoint/tiny.hpp"
#include "sluice/decoder/eigen/make_decoder.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/local/configure.hpp"
#include "sluice/local/memory.hpp"
#include "sluice/systems/orbitflow.hpp"
#include "sluice/systems/streamed_weights.hpp"

#include "allocation/counted.hpp"
#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// Decodes that fill no block, of requests that are all there: so many allocations.
template <class System>
std::int64_t allocations_of_decodes(double share_of_kv) {
  using E = With<System, Cpu, testing::SmallCost>;
  const ModelWeights weights = tiny_llama();
  std::unique_ptr<Decoder> decoder = make_decoder(weights, Tokens{16}, 1);
  std::vector<RequestSpec> specs(4);
  for (RequestSpec& spec : specs) {
    spec.prompt = Tokens{49};
    spec.output = Tokens{60};
  }
  MachineSetup setup;
  setup.limits.batch = 4;
  setup.limits.batch_tokens = Tokens{256};
  setup.limits.max_context = Tokens{200};
  setup.limits.block_tokens = Tokens{16};
  const LocalMemory most = divide_memory(weights, *decoder, specs, {}, setup);
  WantedMemory wanted;
  wanted.kv = Bytes{static_cast<std::int64_t>(share_of_kv * static_cast<double>(most.of(most.all).count()))};
  const LocalMemory memory = divide_memory(weights, *decoder, specs, wanted, setup);
  auto machine = make_cpu_machine(weights, std::move(decoder), setup);
  REQUIRE(machine);
  auto engine = E::make(configure_local<E>(weights, setup.limits, memory, testing::SmallCost{}, *machine));
  REQUIRE(engine);
  for (const RequestSpec& spec : specs) {
    const Expected<RequestId> id = engine->submit(spec);
    REQUIRE(id);
    TokenRequest request;
    request.tokens.assign(49, 7);
    request.ends = false;
    (*machine)->enter(*id, std::move(request));
  }
  for (int i = 0; i < 4; ++i) REQUIRE(engine->step() == Stepped::ran); // prompts, and the first token of a new block
  REQUIRE(engine->view().running.size() == 4);
  const std::int64_t moved = (*machine)->moved().to_device.bytes.count();
  const std::int64_t before = allocations.load();
  for (int i = 0; i < 10; ++i)
    if (engine->step() != Stepped::ran) return -1;
  const std::int64_t during = allocations.load() - before;
  CHECK(((*machine)->moved().to_device.bytes.count() > moved) == (share_of_kv < 1));
  return during;
}

} // namespace

TEST_CASE("a step that decodes for real allocates nothing") { CHECK(allocations_of_decodes<Engine<>>(1) == 0); }
TEST_CASE("nor does one for which KV crosses the link") { CHECK(allocations_of_decodes<OrbitFlow>(0.5) == 0); }
