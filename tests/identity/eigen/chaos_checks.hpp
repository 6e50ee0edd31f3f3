// SPDX-License-Identifier: Apache-2.0
// check_chaos, check_faults: trials under senseless policies, on any device.
#pragma once

#include "identity/eigen/real_run.hpp"
#include "support/chaos.hpp"
#include "support/stepped_clock.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::testing {

using Chaos = Engine<ChaosPlacement, EveryStep, ChaosRelief, ChaosRetention>;

/// Trials as they are drawn for this machine.
struct CpuTrials {
  static RealTrial draw(Random& random) { return random_real_trial(random); }
  static OnCpu where(Random& /*random*/) { return {}; }
};

/// `Trials` draws a trial, and says where it runs: on a SteppedClock, so that the seed alone decides which requests are
/// preempted. On a real clock the machine's speed decided whether any was.
template <class Trials, class E>
void check_chaos(std::uint64_t seed, int rounds, double share, std::uint64_t leaving = 0) {
  Random random(seed);
  RealExercise exercise;
  std::int64_t cancelled = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = Trials::draw(random);
    if (round % 2 == 1) trial = at_once(std::move(trial));
    const std::vector<RealOutput> expected = alone(trial);
    trial.leaving = leaving;
    const auto kv = static_cast<std::int64_t>(share * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    const RealResult result = run_real<E>(
        trial, kv, [](auto& config) { run_stepped(config, Seconds{3e-4}); }, {}, Trials::where(random));
    CHECK_MESSAGE(result.refused == 0, "a request that fits alone is served");
    check_identity(result, expected);
    exercise.add(result);
    cancelled += result.cancelled;
  }
  CHECK((cancelled > 0) == (leaving > 0));
  if (leaving > 0) return; // a leaving request frees memory for the others, and may leave before anything moves
  CHECK(exercise.bytes > 0);
  CHECK(exercise.preempted > 0);
}

/// `spoil(faults)` plans the faults.
template <class Trials, class E, class Spoil>
void check_faults(std::uint64_t seed, int rounds, Spoil&& spoil, bool some_fail) {
  Random random(seed);
  std::int64_t retries = 0, refused = 0, served = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = Trials::draw(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.faults.seed = random.below(1000);
    spoil(trial.faults);
    const RealResult result = run_real<E>(
        trial, 11 * trial.largest() / 10 + 2 * trial.layers() + 8,
        [](auto& config) { run_stepped(config, Seconds{3e-4}); }, {}, Trials::where(random));
    check_identity(result, expected);
    retries += result.moved.to_device.retries + result.moved.to_host.retries;
    refused += result.refused;
    served += static_cast<std::int64_t>(trial.prompts.size()) - result.refused;
  }
  CHECK(retries > 0);
  CHECK(served > 0);
  CHECK((refused > 0) == some_fail);
}

} // namespace sluice::testing
