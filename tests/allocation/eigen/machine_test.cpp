// SPDX-License-Identifier: Apache-2.0
// A decode step on a real machine allocates nothing, neither on the processor nor on a device with streams.
#include "sluice/engine/engine.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/eigen/make_decoder.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/replan/once.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/stream/stream_device.hpp"
#include "sluice/world/stream/stream_memory.hpp"

#include "allocation/allocations.hpp"
#include "engine/trials.hpp"
#include "support/all_hidden.hpp"
#include "support/all_on_host.hpp"
#include "support/prompt_memory.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

using namespace sluice;
using allocation_tests::allocations;

namespace {

/// The processor as the device.
struct OnCpu {
  static auto make(const ModelWeights& weights, std::unique_ptr<Decoder> decoder, const MachineSetup& setup,
                   LayerBlocks /*kv*/) {
    return make_cpu_machine(weights, std::move(decoder), setup);
  }
};
/// A device with streams; the decoder computes at once when it is launched.
struct OnStreams {
  static auto make(const ModelWeights& weights, std::unique_ptr<Decoder> decoder, MachineSetup setup, LayerBlocks kv) {
    const auto blocks = [&] { return stream_kv_blocks(weights, iteration_buffers(*decoder, setup), 4, setup); };
    setup.device_memory = Bytes{0};
    const Bytes block = kv_block_shape(weights.config.shape, setup.limits.block_tokens, 4).bytes();
    setup.device_memory = block * (kv - blocks()).count();
    REQUIRE(blocks() == kv);
    return Machine<StreamDevice<testing::PromptMemory>>::make(
        weights, std::make_unique<DecoderRunner>(std::move(decoder)), setup, TokenListener{},
        std::make_shared<testing::PromptMemory>(), std::int64_t{4});
  }
};

/// Counts the allocations of eight decode steps that fill no block, after all requests have joined.
template <class System, class Where>
std::int64_t allocations_of_decodes(double share_of_kv) {
  using E = With<System, Cpu, testing::SmallCost>;
  const ModelWeights weights = tiny_llama();
  std::unique_ptr<Decoder> decoder = make_decoder(weights, Tokens{128}, 1);
  std::vector<RequestSpec> specs(4);
  for (RequestSpec& spec : specs) {
    spec.prompt = Tokens{129};
    spec.output = Tokens{120};
  }
  MachineSetup setup;
  setup.limits.batch = 4;
  setup.limits.batch_tokens = Tokens{1024};
  setup.limits.max_context = Tokens{600};
  setup.limits.block_tokens = Tokens{128};
  if (System::composition::retention_type::keeps_hidden)
    setup.hidden_blocks = hidden_in_flight(kv_block_shape(weights.config.shape, setup.limits.block_tokens, 4),
                                           setup.rows(), setup.limits.batch);
  const LocalMemory most = divide_memory(weights, *decoder, specs, {}, setup);
  WantedMemory wanted;
  wanted.kv = Bytes{static_cast<std::int64_t>(share_of_kv * static_cast<double>(most.of(most.all).count()))};
  const LocalMemory memory = divide_memory(weights, *decoder, specs, wanted, setup);
  auto machine = Where::make(weights, std::move(decoder), setup, memory.kv);
  REQUIRE(machine);
  auto engine = E::make(configure_local<E>(weights, setup.limits, memory, testing::SmallCost{}, *machine));
  REQUIRE(engine);
  for (const RequestSpec& spec : specs) {
    const Expected<RequestId> id = engine->submit(spec);
    REQUIRE(id);
    TokenRequest request;
    request.tokens.assign(129, 7);
    request.ends = false;
    (*machine)->enter(*id, std::move(request));
  }
  const auto step = [&] { REQUIRE(engine->step() == Stepped::ran); };
  for (int i = 0; i < 10; ++i) step(); // prompts
  REQUIRE(engine->view().running.size() == 4);
  const std::int64_t moved = (*machine)->moved().to_device.bytes.count();
  // A list grows when the link is later than ever before, so the smallest count of several runs is taken.
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (int run = 0; run < 10; ++run) {
    const std::int64_t before = allocations.load();
    for (int i = 0; i < 8; ++i) step();
    fewest = std::min(fewest, allocations.load() - before);
  }
  CHECK(((*machine)->moved().to_device.bytes.count() > moved) == (share_of_kv < 1));
  return fewest;
}

} // namespace

TEST_CASE_TEMPLATE("a decode step on a real machine allocates nothing", Where, OnCpu, OnStreams) {
  CHECK(allocations_of_decodes<Engine<>, Where>(1) == 0);
}
TEST_CASE_TEMPLATE("a decode step whose KV crosses the link allocates nothing", Where, OnCpu, OnStreams) {
  CHECK(allocations_of_decodes<Engine<OffloadAll, Once>, Where>(0.9) == 0);
}
TEST_CASE("a decode step that the host attends allocates nothing") {
  CHECK(allocations_of_decodes<Engine<testing::AllOnHost, EveryStep>, OnCpu>(1) == 0);
}
TEST_CASE_TEMPLATE("a decode step that saves hidden states allocates nothing", Where, OnCpu, OnStreams) {
  CHECK(allocations_of_decodes<With<Engine<>, testing::AllHidden>, Where>(1) == 0);
}
