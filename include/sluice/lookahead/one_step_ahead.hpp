// SPDX-License-Identifier: Apache-2.0
// OneStepAhead: decide the next iteration beside the running one.
#pragma once

#include "sluice/lookahead/lookahead.hpp"

namespace sluice {

/// Planning never lengthens an iteration: the next one is decided from the predicted end of the running one (OrbitFlow,
/// section 3.3.2; SuperInfer). A decision that is not ready in time leaves the batch and plan as they are for one more
/// iteration; arrivals are seen one iteration later.
struct OneStepAhead {
  using role = roles::Lookahead;
  static constexpr bool ahead = true;

  Seconds per_effort{50e-9};

  Seconds planning_time(std::int64_t effort) const { return per_effort * static_cast<double>(effort); }
};

static_assert(Lookahead<OneStepAhead>);

} // namespace sluice
