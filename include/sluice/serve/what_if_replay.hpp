// SPDX-License-Identifier: Apache-2.0
// WhatIfSystem, WhatIfRequests, replay_what_if: one system's replay of a server's requests, and its result.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/serve/slo_tally.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// A system for replays: a name, and a function that runs `requests` until they end or `enough` returns true; it calls
/// `enough` every few steps. `judge` receives the engine's events; request ids are indexes into `requests`. Errors: the
/// engine cannot be made, or a policy gave an impossible answer.
struct WhatIfSystem {
  using Replay = std::function<Status(std::span<const RequestSpec> requests, EventListener& judge,
                                      const std::function<bool()>& enough)>;
  std::string name;
  Replay replay;
};

/// One system's result.
struct WhatIfResult {
  enum class State : std::uint8_t { done, cut, failed };

  std::string system;
  State state = State::done;
  std::string why; ///< for `cut` and `failed`: a message
  SloTally tally;
  double processor_s = 0;
};

/// The requests of a replay, and their SLO attainment during serving.
struct WhatIfRequests {
  std::vector<RequestSpec> replayed;
  SloTally served;
  std::int64_t left_out = 0; ///< requests whose client disconnected before it was decided whether they meet their SLO
  bool crowded = false;
  double span_s = 0; ///< from the first arrival to the last end
};

/// The first request arrives at 0. Outputs have the length that was generated, and policies that use lengths know them
/// in advance. A request whose client disconnected before its first token is left out, unless that token was already
/// late; then it has one token.
[[nodiscard]] WhatIfRequests what_if_requests(const ServedRequests::Copy& copy);

/// Replays `requests` through `system`; counts SLO attainment as a server does.
[[nodiscard]] WhatIfResult replay_what_if(const WhatIfSystem& system, std::span<const RequestSpec> requests,
                                          double most_processor_s, const std::atomic<bool>& stop);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/what_if_replay.inl.hpp"
#endif
