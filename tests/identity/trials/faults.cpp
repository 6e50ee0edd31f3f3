// SPDX-License-Identifier: Apache-2.0
// Failing copies. On a device's stream a copy fails at its end.
#include "identity/eigen/trials.hpp"

namespace sluice::testing {

namespace {

auto failing(double share) {
  return [share](FaultPlan& faults) { faults.failing = share; };
}

} // namespace

TEST_CASE("a transfer that fails once is retried, and every request gets its tokens") {
  check_faults(
      &real<Chaos>, 21, this_device().rounds,
      [](FaultPlan& faults) {
        for (std::uint64_t tag = 1; tag < 2000; tag += 3) faults.tags_failing_once.push_back(tag);
      },
      false);
}

TEST_CASE("copies that fail twice fail only their requests") {
  const int rounds = this_device().rounds + 2;
  check_faults(&real<Chaos>, 22, rounds, failing(0.15), true);
  check_faults(&real<With<Chaos, ChaosHidden>>, 52, rounds, failing(0.15), true);
  check_faults(&real<With<Chaos, ChaosStates, ChaosHidden>>, 53, rounds, failing(0.15), true);
}

TEST_CASE(
    "weights that fail for good fail the requests that compute with them, and are fetched again for later requests") {
  check_faults(&real<DeepSpeedWeights>, 23, this_device().rounds + 2, failing(0.05), true);
}

} // namespace sluice::testing
