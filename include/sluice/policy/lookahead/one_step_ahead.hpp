// SPDX-License-Identifier: Apache-2.0
// OneStepAhead: decide the next iteration asynchronously, while one runs.
#pragma once

#include "sluice/policy/lookahead/lookahead.hpp"

namespace sluice {

/// Planning never lengthens an iteration: the next one is decided from the predicted end of the running one (OrbitFlow,
/// section 3.3.2; SuperInfer). If a decision is late, batch and plan stay as they are for one more iteration. Arrivals
/// are seen one iteration later.
struct OneStepAhead {
  using role = roles::Lookahead;
  static constexpr bool ahead = true;

  /// Seconds per search node of a plan with four requests, 32 layers and a window of SLO checks (bench_placement;
  /// without an SLO 0.1 us, FairShare with one up to 5 us).
  Seconds per_effort{2e-6};

  Seconds planning_time(std::int64_t effort) const { return per_effort * static_cast<double>(effort); }
};

static_assert(Lookahead<OneStepAhead>);

} // namespace sluice
