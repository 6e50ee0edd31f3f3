// SPDX-License-Identifier: Apache-2.0
#include "emulated/eigen/on_gpu.hpp"
#include "identity/eigen/confluence_checks.hpp"

namespace sluice::testing {

TEST_CASE("Confluence changes no token and no logit on a device with random execution order") {
  check_confluence<GpuTrials>(181, 15);
}

TEST_CASE("cancellations under Confluence change no token and no logit on a device with random execution order") {
  check_confluence<GpuTrials>(183, 8, 25);
}

} // namespace sluice::testing
