// SPDX-License-Identifier: Apache-2.0
// Every system of `sluice-run --list` on an emulated GPU with little memory gives the tokens and bits of AllResident:
// with the CPU decoder on the compute stream, and with this project's kernels in f32 and bf16.
#include "sluice/core/random.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/recorded.hpp"
#include "sluice/world/replayed.hpp"

#include "emulated/eigen/enqueued_decoder.hpp"
#include "emulated/eigen/gpu.hpp"
#include "emulated/kernel_runners.hpp"
#include "engines/numbers.hpp"
#include "run/costs.hpp"
#include "run/engine_setup.hpp"
#include "run/job.hpp"
#include "run/machine.hpp"
#include "run/options.hpp"
#include "support/small_models.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using testing::EmulatedGpu;
using testing::EnqueuedDecoder;
using testing::GpuMachine;

/// Requests with random prompts, all present from the beginning.
struct Work {
  std::vector<RequestSpec> specs;
  std::vector<std::vector<std::int32_t>> prompts;

  explicit Work(int vocabulary) {
    Random random(7);
    for (const int length : {30, 25, 28}) {
      RequestSpec spec;
      spec.prompt = Tokens{length};
      spec.output = Tokens{24};
      specs.push_back(spec);
      prompts.emplace_back();
      for (int i = 0; i < length; ++i)
        prompts.back().push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary))));
    }
  }
};

/// The results of the requests.
struct Output {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::vector<std::uint32_t>> logits; ///< bits
  std::int64_t moved_or_preempted = 0;
  std::string decisions; ///< if the bench has settings
};

/// Passes a machine's requests to an engine.
template <class AnyMachine>
class Given final : public running::Arrivals {
 public:
  Given(const Work& work, AnyMachine& machine) : work_(work), machine_(machine) {}
  [[nodiscard]] std::optional<Seconds> next_arrival() const override {
    if (next_ == work_.specs.size()) return std::nullopt;
    return Seconds{0};
  }
  [[nodiscard]] RequestSpec take() override { return work_.specs[next_++]; }
  void submitted(const Expected<RequestId>& id) override {
    REQUIRE_MESSAGE(id, id.error().line());
    TokenRequest request;
    request.tokens = work_.prompts[next_ - 1];
    request.sequence = next_ - 1;
    request.sampling.temperature = next_ == 2 ? 0.8 : 0;
    request.ends = false;
    machine_.enter(*id, std::move(request));
  }

 private:
  const Work& work_;
  AnyMachine& machine_;
  std::size_t next_ = 0;
};

struct Bench {
  ModelWeights weights;
  Work work{weights.config.shape.vocabulary};
  Limits limits;
  std::optional<running::Costs> costs;
  std::vector<std::string> settings; ///< as for --set

  explicit Bench(ModelWeights model) : weights(std::move(model)) {
    limits.batch = 16;
    limits.batch_tokens = Tokens{256};
    limits.max_context = Tokens{weights.config.max_positions};
    MachineSetup setup;
    setup.limits = limits;
    const std::unique_ptr<Decoder> decoder = running::make_decoder(weights, limits.block_tokens, 1);
    Expected<running::Costs> measured = running::costs_of(running::Options{}, weights, *decoder, setup);
    REQUIRE(measured);
    costs = *std::move(measured);
  }

  /// A layer block as engines count it, and the KV of a request of four blocks a layer, the longest here, with one
  /// layer's blocks in flight.
  [[nodiscard]] Bytes block() const { return Bytes{kv_block_floats(weights.config.shape, limits.block_tokens) * 4}; }
  [[nodiscard]] Bytes largest() const { return block() * (4 * weights.config.shape.layers + 4); }

  /// `make(setup, memory, decoder, listener)` makes the machine.
  template <class Make>
  Output run(const engines::System& system, Bytes kv, const MachineSetup& wanted, const Make& make) {
    MachineSetup setup = wanted;
    std::unique_ptr<Decoder> decoder = running::make_decoder(weights, setup.limits.block_tokens, 1);
    running::rebuild(setup, system, weights.config.shape, LayerBlocks{4 * 3});
    WantedMemory memory_wanted;
    memory_wanted.kv = kv;
    const LocalMemory memory = divide_memory(weights, *decoder, work.specs, memory_wanted, setup);
    running::Costs believed = *costs;
    engines::Setup engine = running::engine_setup({}, setup, weights, work.specs, memory, believed);
    Expected<std::vector<engines::NumberSetting>> numbers = engines::read_settings(settings, {&system, 1});
    REQUIRE(numbers);
    engine.numbers = *std::move(numbers);
    Output output;
    output.tokens.resize(work.specs.size());
    output.logits.resize(work.specs.size());
    TokenListener listener;
    listener.logits = [&](RequestId id, std::int64_t, std::span<const float> row) {
      for (const float logit : row) output.logits[index(id)].push_back(std::bit_cast<std::uint32_t>(logit));
    };
    auto machine = make(setup, memory, std::move(decoder), std::move(listener));
    REQUIRE(machine);
    running::Recorded recorded;
    recorded.released = [&](RequestId id, Tokens first, Tokens count) {
      for (const std::int32_t token : (*machine)->generated(id, first, count))
        output.tokens[index(id)].push_back(token);
    };
    recorded.refused = [&](RequestId, std::string_view reason) { FAIL_CHECK(std::string{reason}); };
    recorded.keeps_decisions = !settings.empty();
    Given requests(work, **machine);
    const running::Job job{engine, {}, *machine, requests, recorded};
    const Status ran = running::run(system, job);
    CHECK_MESSAGE(ran.ok(), ran.error().line());
    output.decisions = recorded.decisions.text();
    const CopyTotals moved = (*machine)->moved();
    output.moved_or_preempted = (moved.to_device.bytes + moved.to_host.bytes).count();
    for (const auto& record : recorded.summary.requests) output.moved_or_preempted += record.times_preempted;
    CHECK((*machine)->device_memory().peak() <= (*machine)->device_memory().size());
    return output;
  }
};

/// Runs each system twice, with one lane and with two, other budgets and other batches; every result must equal
/// `expected`.
template <class Make>
void check_systems(Bench& bench, const Output& expected, const Make& make) {
  for (const auto& tokens : expected.tokens) REQUIRE(tokens.size() == 24);
  MachineSetup setup;
  setup.limits = bench.limits;
  setup.skips_idle = true;
  setup.staged = LayerSet::all(bench.weights.config.shape.layers);
  std::uint64_t seed = 0;
  for (const engines::System& system : engines::real_systems()) {
    if (system.host_attends) continue; // sluice-run refuses it on a GPU
    const std::string name{system.name};
    CAPTURE(name);
    std::int64_t moved_or_preempted = 0;
    for (const bool each_way : {false, true}) {
      CAPTURE(each_way);
      setup.link.each_way = each_way;
      setup.limits.batch_tokens = Tokens{each_way ? 32 : 256};
      const Bytes kv = bench.largest() + bench.block() * static_cast<std::int64_t>(2 * (++seed % 3));
      const Output output = bench.run(system, kv, setup, make(seed));
      CHECK(output.tokens == expected.tokens);
      CHECK_MESSAGE(output.logits == expected.logits, "bit-identical logits");
      moved_or_preempted += output.moved_or_preempted;
    }
    if (name == "OneAtATime" || name == "FutureMemory") continue; // these accept no request that might find no memory
    CHECK(moved_or_preempted > 0);
  }
}

/// Makes machines with this project's kernels, from a seed.
auto with_kernels(const Bench& bench, ElementType element) {
  return [&bench, element](std::uint64_t seed) {
    return [&bench, element, seed](MachineSetup mine, const LocalMemory& memory, const auto& /*decoder*/,
                                   TokenListener listener) {
      auto gpu = std::make_shared<EmulatedGpu>(seed);
      mine.device_memory = testing::device_memory_for(memory.kv.count(), element, bench.weights, mine);
      auto runner = testing::make_kernel_runner(element, gpu, bench.weights, mine);
      return GpuMachine::make(bench.weights, std::move(runner), mine, std::move(listener), std::move(gpu),
                              bytes_of(element));
    };
  };
}

void check_kernels(ElementType element) {
  Bench bench(testing::small_weights(testing::SmallModel::llama, element));
  const auto make = with_kernels(bench, element);
  MachineSetup setup;
  setup.limits = bench.limits;
  setup.skips_idle = true;
  REQUIRE(engines::real_systems().front().name == "AllResident");
  const Output expected = bench.run(engines::real_systems().front(), bench.largest() * 4, setup, make(1000));
  check_systems(bench, expected, make);
}

/// With the CPU's decoder on the compute stream.
void check_enqueued(ModelWeights weights) {
  Bench bench(std::move(weights));
  MachineSetup setup;
  setup.limits = bench.limits;
  setup.skips_idle = true;
  REQUIRE(engines::real_systems().front().name == "AllResident");
  const Output expected =
      bench.run(engines::real_systems().front(), bench.largest() * 4, setup,
                [&](const MachineSetup& mine, const LocalMemory&, auto decoder, auto listener) {
                  return running::make_machine(bench.weights, std::move(decoder), mine, std::move(listener));
                });
  check_systems(bench, expected, [&](std::uint64_t seed) {
    return [&, seed](MachineSetup mine, const LocalMemory& memory, std::unique_ptr<Decoder> decoder,
                     TokenListener listener) {
      mine.device_memory = testing::device_memory_for(memory.kv.count(), iteration_buffers(*decoder, mine),
                                                      ElementType::f32, bench.weights, mine);
      auto gpu = std::make_shared<EmulatedGpu>(seed);
      auto runner = std::make_unique<EnqueuedDecoder>(std::move(decoder), gpu);
      runner->set_block_tokens(mine.limits.block_tokens);
      return GpuMachine::make(bench.weights, std::move(runner), mine, std::move(listener), std::move(gpu),
                              std::int64_t{4});
    };
  });
}

} // namespace

TEST_CASE("every system generates the same tokens from the same logits on a device whose order is drawn") {
  check_enqueued(tiny_llama());
}

TEST_CASE("every system generates the same tokens from the same logits with latent attention") {
  check_enqueued(tiny_latent());
}

TEST_CASE("a system's clock on an emulated GPU, replayed, gives the same decisions") {
  Bench bench(testing::small_weights(testing::SmallModel::llama, ElementType::bf16));
  std::uint64_t seed = 40;
  for (const engines::System& system : engines::real_systems()) {
    if (system.host_attends) continue; // sluice-run refuses it on a GPU
    const std::string name{system.name};
    CAPTURE(name);
    MachineSetup setup;
    setup.limits = bench.limits;
    setup.skips_idle = true;
    setup.staged = LayerSet::all(bench.weights.config.shape.layers);
    running::rebuild(setup, system, bench.weights.config.shape, LayerBlocks{4 * 3});
    const auto gpu = std::make_shared<EmulatedGpu>(++seed);
    const Bytes workspace = testing::kernel_workspace(ElementType::bf16, bench.weights, setup);
    const Bytes block{kv_block_floats(bench.weights.config.shape, setup.limits.block_tokens) * 2};
    WantedMemory wanted;
    wanted.kv = block * (4 * bench.weights.config.shape.layers + 8);
    const MemoryNeeds needs{bench.weights.outer_bytes(), workspace, block, Bytes{0}};
    const LocalMemory memory = divide_memory(needs, bench.weights.config.shape.layers, bench.work.specs, wanted, setup);
    running::Costs believed = *bench.costs;
    const engines::Setup engine = running::engine_setup({}, setup, bench.weights, bench.work.specs, memory, believed);
    setup.device_memory = testing::device_memory_for(memory.kv.count(), ElementType::bf16, bench.weights, setup);
    std::vector<int> told(bench.work.specs.size()); // logits of each request run alone
    TokenListener listener;
    listener.logits = [&told](RequestId id, std::int64_t, std::span<const float>) { ++told[index(id)]; };
    listener.wants_logits = [](RequestId id) { return index(id) == 1; };
    auto machine =
        GpuMachine::make(bench.weights, testing::make_kernel_runner(ElementType::bf16, gpu, bench.weights, setup),
                         setup, std::move(listener), gpu, std::int64_t{bytes_of(ElementType::bf16)});
    REQUIRE(machine);
    ClockRecord clock;
    running::Recorded recorded;
    recorded.keeps_decisions = true;
    Given requests(bench.work, **machine);
    const Slo slo{Seconds{1}, Seconds{0.02}};
    running::Job job{engine, slo, world_of(Recorded{RealBackend{*machine}, clock}), requests, recorded};
    const Status ran = running::run(system, job);
    REQUIRE_MESSAGE(ran.ok(), ran.error().line());
    CHECK(told == std::vector<int>{0, 24, 0});

    Replay replay(std::move(clock));
    running::Recorded again;
    again.keeps_decisions = true;
    Given once_more(bench.work, **machine);
    running::Job replayed{engine, slo, world_of(Replayed<RealBackend>{replay}), once_more, again};
    replayed.replay = &replay;
    const Status reran = running::run(system, replayed);
    CHECK_MESSAGE(reran.ok(), reran.error().line());
    CHECK_MESSAGE(replay.status().ok(), replay.status().error().line());
    CHECK(replay.finished());
    CHECK(again.decisions.text() == recorded.decisions.text());
    CHECK(again.summary.requests.size() == bench.work.specs.size());
  }
}

TEST_CASE("this project's kernels in f32 generate each system's tokens") { check_kernels(ElementType::f32); }
TEST_CASE("this project's kernels in bf16 generate each system's tokens") { check_kernels(ElementType::bf16); }

TEST_CASE("AptServe keeps hidden states on the device where they are smaller than K and V, and changes no bit") {
  Bench bench(testing::small_weights(testing::SmallModel::opt, ElementType::bf16)); // no grouped queries
  const auto make = with_kernels(bench, ElementType::bf16);
  MachineSetup setup;
  setup.limits = bench.limits;
  setup.skips_idle = true;
  const Output expected = bench.run(engines::real_systems().front(), bench.largest() * 4, setup, make(1000));
  const auto systems = engines::real_systems();
  const auto apt_serve = std::find_if(systems.begin(), systems.end(),
                                      [](const engines::System& system) { return system.name == "AptServe"; });
  REQUIRE(apt_serve != systems.end());
  bench.settings = {"MostPendingFirst.delay_weight=0"}; // rebuilding is believed to delay nobody
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    // The three prompts fit together only if some of them have hidden states.
    const Output output = bench.run(*apt_serve, bench.largest(), setup, make(seed));
    CHECK(output.tokens == expected.tokens);
    CHECK_MESSAGE(output.logits == expected.logits, "bit-identical logits");
    CHECK(output.decisions.find(" as hidden states") != std::string::npos);
  }
}
