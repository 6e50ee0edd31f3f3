// SPDX-License-Identifier: Apache-2.0
// Copies that fail on an emulated device: then a copy counts when it has ended.
#include "sluice/systems/streamed_weights.hpp"

#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/chaos.hpp"

namespace sluice::testing {
namespace {

using Chaos = Engine<ChaosPlacement, EveryStep, ChaosRelief, ChaosRetention>;

template <class E, class Spoil>
void check_faults(std::uint64_t seed, int rounds, Spoil&& spoil, bool some_fail) {
  Random random(seed);
  std::int64_t retries = 0, refused = 0, served = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = random_gpu_trial(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.faults.seed = random.below(1000);
    spoil(trial.faults);
    const RealResult result = run_real<E>(
        trial, 11 * trial.largest() / 10 + 2 * trial.layers() + 8, [](auto&) {}, {}, OnGpu<>{random()});
    check_identity(result, expected);
    retries += result.moved.to_device.retries + result.moved.to_host.retries;
    refused += result.refused;
    served += static_cast<std::int64_t>(trial.prompts.size()) - result.refused;
  }
  CHECK(retries > 0);
  CHECK(served > 0);
  CHECK((refused > 0) == some_fail);
}

} // namespace

TEST_CASE("a copy that fails once on a device's stream is tried again, and nobody notices") {
  check_faults<Chaos>(
      21, 25,
      [](FaultPlan& faults) {
        for (std::uint64_t tag = 1; tag < 2000; tag += 3) faults.tags_failing_once.push_back(tag);
      },
      false);
}

TEST_CASE("those that fail twice fail their requests alone, on a device too") {
  check_faults<Chaos>(
      22, 25, [](FaultPlan& faults) { faults.failing = 0.15; }, true);
}

TEST_CASE("weights that fail for good fail who computes with them, on a device too") {
  check_faults<DeepSpeedWeights>(
      23, 25, [](FaultPlan& faults) { faults.failing = 0.05; }, true);
}

} // namespace sluice::testing
