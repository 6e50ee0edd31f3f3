// SPDX-License-Identifier: Apache-2.0
// A device that fails for good: every current and later request ends with the device's error, its KV is free, and no
// token computed after the failure is delivered.
#include "sluice/model/decoder/model_runner.hpp"

#include "identity/eigen/real_run.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::testing {

namespace {

/// A runner whose device is lost after so many iterations; its later tokens belong to no row.
class FailingRunner final : public ForwardingRunner {
 public:
  FailingRunner(std::unique_ptr<Decoder> decoder, int lasts) : base_(std::move(decoder)), lasts_(lasts) {
    forward_to(base_);
  }

  void begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions) override {
    --lasts_;
    base_.begin(tokens, positions);
  }
  void launch_samples(std::span<const SampleRow> rows) override {
    base_.launch_samples(rows);
    none_.assign(rows.size(), -1);
  }
  [[nodiscard]] std::span<const std::int32_t> tokens() override { return lasts_ < 0 ? none_ : base_.tokens(); }
  [[nodiscard]] Status status() override {
    if (lasts_ >= 0) return {};
    return Error{ErrorCode::unsupported, "device", "it fell off the bus", "another"};
  }

 private:
  DecoderRunner base_;
  int lasts_;
  std::vector<std::int32_t> none_;
};

} // namespace

TEST_CASE("a device that fails ends every request, running or later, with its error") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    RealTrial trial = random_real_trial(random);
    for (std::int64_t& output : trial.outputs) output = 20; // no request ends before the device fails
    std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, trial.threads);
    const std::int64_t kv = trial.largest() + 2 * trial.layers() + 8;
    const MachineSetup setup = trial.setup(*decoder, kv);
    std::int64_t told = 0;
    TokenListener listener;
    listener.token = [&](RequestId, std::int32_t) { ++told; };
    Expected<std::shared_ptr<CpuMachine>> machine = CpuMachine::make(
        trial.weights, std::make_unique<FailingRunner>(std::move(decoder), 3), setup, std::move(listener));
    REQUIRE(machine);
    const ModelShape& shape = trial.weights.config.shape;
    SmallCost cost;
    cost.base = Seconds{1e-3};
    cost.rate = BytesPerSecond{1e9};
    Expected<std::unique_ptr<RealEngine>> made =
        real<Chaos>({.limits = trial.limits,
                     .geometry = {shape.layers, Bytes{kv_block_floats(shape, trial.limits.block_tokens) * 4},
                                  trial.weights.layout.bytes, shape.layer_hidden_bytes(trial.limits.block_tokens)},
                     .device_blocks = LayerBlocks{kv},
                     .host_blocks = LayerBlocks{trial.host_blocks},
                     .cost = cost,
                     .backend = Cpu{*machine}});
    REQUIRE(made);
    const std::unique_ptr<RealEngine> engine = *std::move(made);
    const auto submit = [&](std::size_t i) {
      RequestSpec spec;
      spec.prompt = Tokens{static_cast<std::int64_t>(trial.prompts[i].size())};
      spec.output = Tokens{trial.outputs[i]};
      spec.slo.tbt = trial.slo;
      const Expected<RequestId> id = engine->submit(spec, Tokens{0});
      REQUIRE(id);
      TokenRequest request;
      request.tokens = trial.prompts[i];
      request.sequence = i;
      request.ends = false;
      (*machine)->enter(*id, std::move(request));
    };
    for (std::size_t i = 0; i < trial.prompts.size(); ++i) submit(i);
    int steps = 0;
    std::int64_t before = 0;
    while (engine->alive() > 0 && ++steps < 400) {
      REQUIRE(engine->step() != Stepped::failed);
      if (steps == 3) before = told;
    }
    CHECK(engine->alive() == 0);
    CHECK(told == before); // of the iterations before it failed
    submit(0);
    for (steps = 0; engine->alive() > 0 && steps < 20; ++steps) REQUIRE(engine->step() != Stepped::failed);
    CHECK(engine->alive() == 0);
    CHECK(engine->view().ledger->device().used().count() == 0);
    CHECK(engine->view().ledger->host().used().count() == 0);
    const Summary::State& summary = engine->summary();
    REQUIRE(summary.requests.size() == trial.prompts.size() + 1);
    for (const RequestRecord& request : summary.requests) {
      REQUIRE(request.outcome == Outcome::refused);
      CHECK(summary.reasons[static_cast<std::size_t>(request.reason)].find("device: it fell off the bus") !=
            std::string::npos);
    }
  }
}

} // namespace sluice::testing
