// SPDX-License-Identifier: Apache-2.0
// Restless, ShortQuanta: admissions whose requests take turns all the time in a trial of a few seconds.
#pragma once

#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/admission/skip_join_mlfq.hpp"

namespace sluice::testing {

/// Lags count from the first moment, so all requests take turns.
struct Restless : LargestVirtualLagFirst {
  Restless() {
    first_token = Seconds{0.02};
    rotation = TokenBlocks{12};
  }
};

/// Quanta of an iteration, so that requests change levels all the time.
struct ShortQuanta : SkipJoinMlfq {
  ShortQuanta() {
    queue.quantum = Seconds{1e-3};
    queue.starvation = Seconds{0.05};
  }
};

} // namespace sluice::testing
