// SPDX-License-Identifier: Apache-2.0
// InStep: decide between two iterations (the default).
#pragma once

#include "sluice/lookahead/lookahead.hpp"

namespace sluice {

/// The iteration waits for its decision. On the simulated clock that costs `per_effort` for each search node of a plan,
/// a figure of bench_placement rather than of the machine that simulates: runs stay reproducible.
struct InStep {
  using role = roles::Lookahead;
  static constexpr bool ahead = false;

  /// A search node of a plan with four requests, 32 layers and a window of SLO checks: 2 us (bench_placement without an
  /// SLO: 0.1 us; FairShare with one: up to 5 us).
  Seconds per_effort{2e-6};

  Seconds planning_time(std::int64_t effort) const { return per_effort * static_cast<double>(effort); }
};

static_assert(Lookahead<InStep>);

template <>
struct Default<roles::Lookahead> {
  using type = InStep;
};

} // namespace sluice
