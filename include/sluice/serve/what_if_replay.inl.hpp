// SPDX-License-Identifier: Apache-2.0
// what_if_replay: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/spare_thread.hpp"
#include "sluice/serve/what_if_replay.hpp"

#include <algorithm>
#include <cstdio>

namespace sluice {

SLUICE_SERVER_INLINE WhatIfRequests what_if_requests(const ServedRequests::Copy& copy) {
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

SLUICE_SERVER_INLINE WhatIfResult replay_what_if(const WhatIfSystem& system, std::span<const RequestSpec> requests,
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
