// SPDX-License-Identifier: Apache-2.0
// Requests of several priorities, of which the urgent ones preempt the others.
#include "sluice/engine/systems/vllm.hpp"

#include "identity/eigen/trials.hpp"

namespace sluice::testing {

TEST_CASE("urgent requests that preempt others change no token and no logit") {
  check_chaos(&real<With<VllmPriorityPreempts, MoveToHost>>, 93, 1.1);
}

} // namespace sluice::testing
