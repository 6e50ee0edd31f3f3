// SPDX-License-Identifier: Apache-2.0
// RequestSpec: a user's request and its arrival.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/workload/session_hints.hpp"

#include <cstdint>
#include <limits>

namespace sluice {

/// A request's SLO. Infinite values mean no SLO.
struct Slo {
  Seconds ttft{std::numeric_limits<double>::infinity()}; ///< time from arrival to first token
  Seconds tbt{std::numeric_limits<double>::infinity()};  ///< time between tokens (the TPOT SLO is the same)

  friend constexpr bool operator==(const Slo&, const Slo&) = default;
};

/// One request of a workload. Arrivals are wall-clock seconds from the start of the run, the same for every system,
/// except for a request that `follows` another: its arrival depends on when the system has answered that one.
///
/// Both lengths are at least 1. The request *will* generate its output length: the engine ends it there. Policies see a
/// KnownSpec, which lacks it, and only oracles such as ShortestRemainingFirst may read it. With `output_is_bound` (a
/// server's `max_tokens`) the output length is the maximum, and the backend ends the request (`EndsRequests`): policies
/// may reserve memory for the maximum, and no policy knows the actual length.
struct RequestSpec {
  Seconds arrival{0};           ///< time of arrival, on the run's clock
  Tokens prompt{1};             ///< number of tokens of its prompt
  Tokens output{1};             ///< number of tokens that it will generate, or their maximum
  Slo slo;                      ///< its SLO
  bool output_is_bound = false; ///< `output` is the maximum, and the backend ends the request
  std::int32_t priority = 0;    ///< lower is served first (vLLM), with policies that use it: PriorityFirst and others

  std::uint32_t session = 0; ///< requests of one session have its number; 0: belongs to no session
  std::int32_t turn = 0;     ///< its position in the session, from 0
  bool follows = false;      ///< arrives `delay` after the previous request of its session has its last token
  Seconds delay{0};          ///< from the end of that answer to this arrival: the time of a tool or a user
  SessionHints hints{};      ///< what its client says of its KV after the answer, for policies that read it

  friend constexpr bool operator==(const RequestSpec&, const RequestSpec&) = default;
};

/// The end of an answer: the request of this session has its last token, or was refused.
struct Answered {
  std::uint32_t session = 0;
  Seconds when{0};
};

} // namespace sluice
