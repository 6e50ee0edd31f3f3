// SPDX-License-Identifier: Apache-2.0
// Copies that fail on an emulated device: then a copy counts when it has ended.
#include "sluice/engine/systems/streamed_weights.hpp"

#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/chaos_checks.hpp"

namespace sluice::testing {

TEST_CASE("a copy that fails once on a device's stream is tried again, and nobody notices") {
  check_faults<GpuTrials, Chaos>(
      21, 25,
      [](FaultPlan& faults) {
        for (std::uint64_t tag = 1; tag < 2000; tag += 3) faults.tags_failing_once.push_back(tag);
      },
      false);
}

TEST_CASE("those that fail twice fail their requests alone, on a device too") {
  check_faults<GpuTrials, Chaos>(
      22, 25, [](FaultPlan& faults) { faults.failing = 0.15; }, true);
  check_faults<GpuTrials, With<Chaos, ChaosHidden>>(
      52, 25, [](FaultPlan& faults) { faults.failing = 0.15; }, true);
}

TEST_CASE("weights that fail for good fail who computes with them, on a device too") {
  check_faults<GpuTrials, DeepSpeedWeights>(
      23, 25, [](FaultPlan& faults) { faults.failing = 0.05; }, true);
}

} // namespace sluice::testing
