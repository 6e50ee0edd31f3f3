// SPDX-License-Identifier: Apache-2.0
// Failing copies on an emulated device, where a copy fails at its end.
#include "sluice/engine/systems/streamed_weights.hpp"

#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/chaos_checks.hpp"

namespace sluice::testing {

TEST_CASE("a copy that fails once on a device's stream is retried, and every request gets its tokens") {
  check_faults<GpuTrials, Chaos>(
      21, 25,
      [](FaultPlan& faults) {
        for (std::uint64_t tag = 1; tag < 2000; tag += 3) faults.tags_failing_once.push_back(tag);
      },
      false);
}

TEST_CASE("copies that fail twice fail only their requests, on a device too") {
  check_faults<GpuTrials, Chaos>(
      22, 25, [](FaultPlan& faults) { faults.failing = 0.15; }, true);
  check_faults<GpuTrials, With<Chaos, ChaosHidden>>(
      52, 25, [](FaultPlan& faults) { faults.failing = 0.15; }, true);
  check_faults<GpuTrials, With<Chaos, ChaosStates, ChaosHidden>>(
      53, 25, [](FaultPlan& faults) { faults.failing = 0.15; }, true);
}

TEST_CASE("weights that fail for good fail the requests that compute with them, on a device too") {
  check_faults<GpuTrials, DeepSpeedWeights>(
      23, 25, [](FaultPlan& faults) { faults.failing = 0.05; }, true);
}

} // namespace sluice::testing
