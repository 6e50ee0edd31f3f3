// SPDX-License-Identifier: Apache-2.0
// InStep: decide between two iterations (the default).
#pragma once

#include "sluice/policy/lookahead/lookahead.hpp"

namespace sluice {

/// The iteration waits for its decision. On the simulated clock each search node costs `per_effort`, a constant
/// measured by bench_placement, so that runs are reproducible on any machine.
struct InStep {
  using role = roles::Lookahead;
  static constexpr bool ahead = false;

  /// Seconds per search node of a plan with four requests, 32 layers and a window of SLO checks (bench_placement;
  /// without an SLO 0.1 us, FairShare with one up to 5 us).
  Seconds per_effort{2e-6};

  Seconds planning_time(std::int64_t effort) const { return per_effort * static_cast<double>(effort); }
};

static_assert(Lookahead<InStep>);

template <>
struct Default<roles::Lookahead> {
  using type = InStep;
};

} // namespace sluice
