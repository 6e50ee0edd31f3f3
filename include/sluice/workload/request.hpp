// SPDX-License-Identifier: Apache-2.0
// RequestSpec: what a user asks for, and when.
#pragma once

#include "sluice/core/units.hpp"

#include <cstdint>
#include <limits>

namespace sluice {

/// The latencies a user is promised. A request without a promise has an infinite one.
struct Slo {
  Seconds ttft{std::numeric_limits<double>::infinity()}; ///< arrival to first token
  Seconds tbt{std::numeric_limits<double>::infinity()};  ///< a token is owed every `tbt` (the TPOT SLO is the same)

  friend constexpr bool operator==(const Slo&, const Slo&) = default;
};

/// One request of a workload. Arrivals are wall-clock seconds from the start of the run, the same for every system.
///
/// Both lengths are at least 1. The output length is what the request *will* generate: the engine ends the request
/// there, and only policies that say so (oracles such as ShortestRemainingFirst) may look at it beforehand. With
/// `output_is_bound` (a server's `max_tokens`) the request ends there at the latest, and its backend says when it does
/// (`EndsRequests`): policies may reserve for the bound, and none knows the length.
struct RequestSpec {
  Seconds arrival{0};           ///< when, on the run's clock
  Tokens prompt{1};             ///< tokens that it brings
  Tokens output{1};             ///< tokens that it will generate, or its bound
  Slo slo;                      ///< what its user was promised
  bool output_is_bound = false; ///< `output` is the most, not the length: the backend says when it ends
  std::int32_t priority = 0;    ///< lower first (vLLM); for policies that heed it, as PriorityFirst

  friend constexpr bool operator==(const RequestSpec&, const RequestSpec&) = default;
};

} // namespace sluice
