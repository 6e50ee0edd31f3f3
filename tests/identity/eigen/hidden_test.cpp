// SPDX-License-Identifier: Apache-2.0
// Hidden states on a real machine: saved as they are computed, and used to rebuild missing K and V.
#include "sluice/model/decoder/decoder_runner.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/relief/preempt_newest.hpp"
#include "sluice/policy/retention/drop.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "identity/eigen/hidden_checks.hpp"
#include "support/all_hidden.hpp"

namespace sluice::testing {

namespace {

/// A trial on this machine that counts its rows.
struct Counted : OnCpu {
  std::shared_ptr<CountedRows> counts = std::make_shared<CountedRows>();

  [[nodiscard]] Expected<std::shared_ptr<CpuMachine>> make(const RealTrial& trial, std::unique_ptr<Decoder> decoder,
                                                           const MachineSetup& setup, TokenListener listener) const {
    auto runner = std::make_unique<DecoderRunner>(std::move(decoder));
    return CpuMachine::make(trial.weights, std::make_unique<CountingRunner>(std::move(runner), counts), setup,
                            std::move(listener));
  }
};

} // namespace

TEST_CASE("hidden states saved, kept and dropped in every step change no token and no logit") {
  check_chaos<CpuTrials, With<Chaos, ChaosHidden>>(21, 8, 0.8);
  check_chaos<CpuTrials, With<Chaos, ChaosHidden, NextLayer>>(22, 8, 1.1);
  check_chaos<CpuTrials, With<Chaos, ChaosHidden, FairShare, ChaosWeights>>(23, 8, 1.1, 25);
}

TEST_CASE("a request that returns with hidden states passes no layer again; one that returns without them passes all") {
  using Recompute = Engine<Fcfs, EveryStep, PreemptNewest, Drop>;
  Random random(5);
  CountedRows with, without;
  std::int64_t preempted = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    RealTrial trial = at_once(random_real_trial(random));
    trial.slo = Seconds{10};
    trial.room_for_hidden = true;
    const std::vector<RealOutput> expected = alone(trial);
    const std::int64_t kv = trial.largest() + trial.layers() + 8;
    const auto nothing = [](auto&) {};
    const Counted counted;
    const RealResult result = run_real<With<Recompute, AllHidden>>(trial, kv, nothing, {}, counted);
    check_identity(result, expected);
    CHECK(result.refused == 0);
    preempted += result.preempted;
    with.passed += counted.counts->passed;
    with.stored += counted.counts->stored;
    with.restored += counted.counts->restored;
    // Each token passes each layer once, whichever request is preempted.
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < trial.prompts.size(); ++i)
      tokens += static_cast<std::int64_t>(trial.prompts[i].size()) + trial.outputs[i] - 1;
    CHECK(counted.counts->passed == tokens * trial.layers());
    CHECK(counted.counts->kept == tokens * (trial.layers() - 1)); // each state once, too
    const Counted dropping;
    check_identity(run_real<Recompute>(trial, kv, nothing, {}, dropping), expected);
    without.passed += dropping.counts->passed;
    without.restored += dropping.counts->restored;
  }
  CHECK(preempted > 0);
  CHECK(with.restored > 0);
  CHECK(without.restored == 0);
  CHECK(with.passed < without.passed);
}

TEST_CASE("HCache, KVPR, and eLLM with hidden states on the host, change no token and no logit") {
  check_hidden_systems<CpuTrials>(6, 12, [](const std::shared_ptr<CountedRows>& counts) {
    return Counted{{}, counts};
  });
}

} // namespace sluice::testing
