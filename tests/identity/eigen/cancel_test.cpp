// SPDX-License-Identifier: Apache-2.0
// Cancellations on a real machine: a cancelled request's memory is free again once its transfers have ended.
#include "sluice/policy/delivery/token_deposit.hpp"
#include "sluice/report/observer/releases.hpp"

#include "identity/eigen/trials.hpp"

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <thread>
#include <tuple>
#include <vector>

namespace sluice::testing {

namespace {

/// Requests join, run for some steps and are all cancelled, repeatedly: afterwards no memory is missing, and none is
/// assigned twice. Returns the bytes that went to the host.
Bytes check_memory_returns(const MakeReal& make, std::uint64_t seed, int rounds) {
  Random random(seed);
  RealTrial trial = random_real_trial(random);
  trial.room_for_hidden = false; // all of the memory is for KV, and all of it is returned
  trial.link.to_device_bytes_per_s = trial.link.to_host_bytes_per_s =
      2e6;                                                // slow: copies are under way when users cancel
  for (std::int64_t& output : trial.outputs) output = 20; // no request ends before the cancellations
  std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, trial.threads);
  const std::int64_t kv = trial.largest() + 2 * trial.layers() + 8;
  const MachineSetup setup = trial.setup(*decoder, kv);
  Expected<std::shared_ptr<CpuMachine>> machine = make_cpu_machine(trial.weights, std::move(decoder), setup);
  REQUIRE(machine);
  const ModelShape& shape = trial.weights.config.shape;
  const Bytes block{kv_block_floats(shape, trial.limits.block_tokens) * 4};
  SmallCost cost;
  cost.base = Seconds{1e-3};
  cost.rate = BytesPerSecond{trial.link.to_device_bytes_per_s};
  Expected<std::unique_ptr<RealEngine>> made =
      make({.limits = trial.limits,
            .geometry = {shape.layers, block, trial.weights.layout.bytes,
                         Bytes{shape.hidden * 4 * trial.limits.block_tokens.count()}},
            .device_blocks = LayerBlocks{kv},
            .host_blocks = LayerBlocks{trial.host_blocks},
            .cost = cost,
            .backend = Cpu{*machine}});
  REQUIRE(made);
  const std::unique_ptr<RealEngine> engine = *std::move(made);
  Bytes free{0};
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    std::vector<RequestId> live;
    for (std::size_t i = 0; i < trial.prompts.size(); ++i) {
      RequestSpec spec;
      spec.prompt = Tokens{static_cast<std::int64_t>(trial.prompts[i].size())};
      spec.output = Tokens{trial.outputs[i]};
      spec.slo.tbt = trial.slo;
      const Expected<RequestId> id = engine->submit(spec, Tokens{0});
      REQUIRE(id);
      live.push_back(*id);
      TokenRequest request;
      request.tokens = trial.prompts[i];
      request.sequence = i;
      request.ends = false;
      (*machine)->enter(*id, std::move(request));
    }
    for (std::uint64_t steps = random.below(8); steps > 0; --steps)
      if (engine->step() == Stepped::failed) FAIL(engine->status().error().line());
    for (const RequestId id : live) {
      CHECK(engine->cancel(id).ok());
      (*machine)->forget(id);
    }
    CHECK(engine->alive() == 0);
    CHECK(engine->view().ledger->device().used().count() == 0);
    CHECK(engine->view().ledger->host().used().count() == 0);
    const auto begun = std::chrono::steady_clock::now();
    const auto settled = [&] { return (*machine)->device_memory().free() >= block * kv; };
    if (engine->steps() == 0) continue; // its weights have not arrived yet
    while (!settled() &&
           std::chrono::steady_clock::now() - begun < std::chrono::minutes{5}) // only a failure takes them
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    CHECK_MESSAGE(settled(), "all KV memory is free again");
    if (free.count() > 0) CHECK((*machine)->device_memory().free() == free);
    free = (*machine)->device_memory().free();
  }
  CHECK(free.count() > 0);
  return (*machine)->moved().to_host.bytes;
}

} // namespace

TEST_CASE("memory of cancelled requests on a real machine is free once their transfers have ended") {
  Bytes moved = check_memory_returns(&real<Chaos>, 1, 40);
  moved += check_memory_returns(&real<ChaosAhead>, 2, 40);
  moved += check_memory_returns(&real<ChaosEager>, 3, 40);
  CHECK(moved.count() > 0);
}

TEST_CASE("no request waits for weights that were loaded beforehand, whether all of them fit or not") {
  Random random(29);
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    const RealTrial trial = random_real_trial(random);
    std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, 1);
    const std::int64_t kv = trial.all();
    MachineSetup setup = trial.setup(*decoder, kv);
    const Bytes all = trial.weights.outer_bytes() + trial.weights.layout.bytes * trial.layers();
    if (round % 2 == 1)
      setup.device_memory -= trial.weights.layout.bytes * 2 +
                             Bytes{kv_block_floats(trial.weights.config.shape, trial.limits.block_tokens) * 4} * kv;
    Expected<std::shared_ptr<CpuMachine>> machine = make_cpu_machine(trial.weights, std::move(decoder), setup);
    REQUIRE(machine);
    const Bytes before = (*machine)->device_memory().used();
    CHECK_FALSE((*machine)->ready());
    const Seconds begun = (*machine)->now();
    const Status loaded = (*machine)->load();
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().line());
    CHECK((*machine)->ready());
    CHECK((*machine)->load().ok());
    CHECK_MESSAGE((*machine)->now() - begun < Seconds{0.5}, "the clock does not advance meanwhile");
    const Bytes taken = (*machine)->device_memory().used() - before;
    if (round % 2 == 0)
      CHECK(taken == all);
    else
      CHECK((taken < all && taken >= trial.weights.outer_bytes()));
  }
  // The same tokens, with KV in memory that the loaded weights must release again.
  for (int round = 0; round < 4; ++round) {
    RealTrial trial = random_real_trial(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.loads = true;
    check_identity(run_real<ChaosStreams>(trial, trial.largest() + 2 * trial.layers() + 8), expected);
  }
}

namespace {

/// What a server would send: tokens as Delivery releases them.
struct Sent {
  const CpuMachine* machine = nullptr;
  std::map<std::uint32_t, std::vector<std::int32_t>> tokens;
  std::int64_t bursts = 0;

  void released(RequestId id, Tokens first, Tokens count, Seconds) {
    auto& sent = tokens[index(id)];
    CHECK_MESSAGE(first.count() == static_cast<std::int64_t>(sent.size()), "in order, each once");
    for (const std::int32_t token : machine->generated(id, first, count)) sent.push_back(token);
    bursts += count.count() > 1;
  }
};

} // namespace

TEST_CASE("a deposit holds real tokens: it releases the sampled tokens in order, and never ahead of their time") {
  using E = With<Engine<>, TokenDeposit, Cpu, SmallCost, Releases<Sent>>;
  Random random(41);
  std::int64_t held = 0, bursts = 0;
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    const std::vector<RealOutput> expected = alone(trial);
    std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, 1);
    MachineSetup setup = trial.setup(*decoder, trial.all());
    const ModelShape& shape = trial.weights.config.shape;
    const Bytes block{kv_block_floats(shape, trial.limits.block_tokens) * 4};
    Expected<std::shared_ptr<CpuMachine>> machine = make_cpu_machine(trial.weights, std::move(decoder), setup);
    REQUIRE(machine);
    Sent sent;
    sent.machine = machine->get();
    Expected<E> engine = E::make({.limits = trial.limits,
                                  .geometry = {shape.layers, block, trial.weights.layout.bytes,
                                               shape.layer_hidden_bytes(trial.limits.block_tokens)},
                                  .device_blocks = LayerBlocks{trial.all()},
                                  .host_blocks = LayerBlocks{trial.host_blocks},
                                  .cost = SmallCost{},
                                  .backend = Cpu{*machine},
                                  .observers = std::tuple{Releases<Sent>{&sent}}});
    REQUIRE(engine);
    REQUIRE(engine->load().ok());
    for (std::size_t i = 0; i < trial.prompts.size(); ++i) {
      RequestSpec spec;
      spec.prompt = Tokens{static_cast<std::int64_t>(trial.prompts[i].size())};
      spec.output = Tokens{trial.outputs[i]};
      spec.slo.tbt = Seconds{round % 2 == 0 ? 0.002 : 1000};
      const Expected<RequestId> id = engine->submit(spec);
      REQUIRE(id);
      TokenRequest request;
      request.tokens = trial.prompts[i];
      request.sequence = i;
      request.sampling.temperature = i % 2 == 0 ? 0 : 0.8;
      (*machine)->enter(*id, std::move(request));
    }
    while (engine->step() == Stepped::ran) {
      engine->release_due(engine->now());
      for (const Slot slot : engine->view().running) {
        const RequestRow& row = engine->view().row(slot);
        CHECK(row.delivered.count() == static_cast<std::int64_t>(sent.tokens[index(row.id)].size()));
        held += row.deposit().count();
      }
    }
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(sent.tokens[static_cast<std::uint32_t>(i)] == expected[i].tokens);
    bursts += sent.bursts;
  }
  CHECK(held > 0);
  CHECK(bursts > 0);
}

TEST_CASE("a bell wakes an idle machine at once, whatever it waits for") {
  Random random(5);
  const RealTrial trial = random_real_trial(random);
  std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, 1);
  MachineSetup setup = trial.setup(*decoder, trial.all());
  setup.skips_idle = false;
  Expected<std::shared_ptr<CpuMachine>> machine = make_cpu_machine(trial.weights, std::move(decoder), setup);
  REQUIRE(machine);
  for (const double seconds : {3600.0, std::numeric_limits<double>::infinity()}) {
    Doorbell bell;
    const Seconds begun = (*machine)->now();
    std::thread arrival{[&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
      bell.ring();
    }};
    Cpu{*machine}.idle_until(begun + Seconds{seconds}, bell);
    arrival.join();
    const Seconds slept = (*machine)->now() - begun;
    CHECK(slept >= Seconds{0.005});
    CHECK(slept < Seconds{1800}); // far below an hour, however busy the machine is
  }
  Doorbell silent;
  const Seconds begun = (*machine)->now();
  Cpu{*machine}.idle_until(begun + Seconds{0.01}, silent);
  CHECK((*machine)->now() >= begun + Seconds{0.01});
}

} // namespace sluice::testing
