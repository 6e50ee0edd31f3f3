// SPDX-License-Identifier: Apache-2.0
// WhatIfSystem, WhatIfRequests, replay_what_if: one system's replay of a server's requests, and its result.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/served_requests.hpp"
#include "sluice/serve/slo_tally.hpp"
#include "sluice/serve/spare_thread.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
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
[[nodiscard]] inline WhatIfRequests what_if_requests(const ServedRequests::Copy& copy) {
  WhatIfRequests all;
  all.crowded = copy.crowded;
  Seconds begin{0}, end{0};
  for (const ServedRequest& request : copy.requests) {
    if (request.generated.count() < 1 && !request.kept.first_is_late(request.ended)) {
      ++all.left_out;
      continue;
    }
    RequestSpec spec = request.spec;
    if (all.replayed.empty()) begin = spec.arrival;
    end = std::max(end, request.ended);
    spec.arrival = spec.arrival - begin;
    spec.slo = request.kept.slo; // without this server's margins
    spec.output = std::max(Tokens{1}, request.generated);
    spec.output_is_bound = false;
    all.replayed.push_back(spec);
    all.served.add(request.kept, request.ended);
  }
  if (!all.replayed.empty()) all.span_s = (end - begin).count();
  return all;
}

/// Replays `requests` through `system`; counts SLO attainment as a server does.
[[nodiscard]] inline WhatIfResult replay_what_if(const WhatIfSystem& system, std::span<const RequestSpec> requests,
                                                 double most_processor_s, const std::atomic<bool>& stop) {
  WhatIfResult result;
  result.system = system.name;
  SloJudge judge(requests);
  const double began = thread_seconds();
  bool cut = false;
  const Status status = system.replay(requests, judge, [&] {
    return cut = cut || stop.load(std::memory_order_relaxed) || thread_seconds() - began > most_processor_s;
  });
  if (status && !cut) judge.finish();
  result.tally = judge.tally();
  result.processor_s = thread_seconds() - began;
  if (!status) {
    result.state = WhatIfResult::State::failed;
    result.why = status.error().line();
  } else if (cut) {
    result.state = WhatIfResult::State::cut;
    char text[120];
    std::snprintf(text, sizeof text, "cut after %.3g s of processor time, with %lld of %lld requests replayed",
                  most_processor_s, static_cast<long long>(result.tally.requests),
                  static_cast<long long>(requests.size()));
    result.why = text;
  }
  return result;
}

} // namespace sluice
