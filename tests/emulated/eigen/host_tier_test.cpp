// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"

#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/session_checks.hpp"

namespace sluice::testing {

TEST_CASE("on an emulated device, turns from the host tier change no token and no logit") {
  const auto check = [](const Exercise& one) {
    CHECK(one.found > 0);
    CHECK(one.kv_seconds > 0);
    CHECK(one.kv_seconds <= one.busy_seconds * (1 + 1e-6)); // a batch of copies is timed as a whole
  };
  check(check_turns<GpuTrials, Chaos>(161, 5, 0.8));
  check(check_turns<GpuTrials, With<Chaos, OneStepAhead>>(162, 4, 0.9));
  check(check_turns<GpuTrials, With<Chaos, ChaosWeights>>(163, 4, 1.1));
  check(check_turns<GpuTrials, OrbitFlow>(164, 4, 1.1));
}

TEST_CASE("on an emulated device, fifty requests that wait for one beginning: one load") {
  check_convoy<GpuTrials>(167, 50, 12);
}

TEST_CASE("on an emulated device, cancellations and failing copies around the host tier change no token") {
  CHECK(check_turns<GpuTrials, Chaos>(165, 5, 0.8, 10).found > 0);
  CHECK(check_turns<GpuTrials, Chaos>(166, 5, 0.9, 0, 0.05).found > 0);
}

} // namespace sluice::testing
