// SPDX-License-Identifier: Apache-2.0
// LeastLoaded: the engine with the fewest requests, as vLLM's front end counts them.
#pragma once

#include "sluice/fleet/router.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice {

/// Chooses the engine for a request as vLLM's front end does (`DPLBAsyncMPClient.get_core_engine_for_request`): the
/// lowest of 4 x waiting + running, the first of equals. Preempted requests wait again, and the front end counts its
/// own requests as waiting until the next report.
struct LeastLoaded {
  using role = roles::Router;
  static constexpr RouterReads reads{.load = true};
  struct State {
    std::int64_t edition = -1;
    std::vector<std::int64_t> loads; ///< by engine; one that takes no requests has the largest
  };

  Seconds every{0.1};

  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest& /*request*/, State& state) const {
    if (state.edition != view.edition) {
      state.edition = view.edition;
      state.loads.assign(view.engines(), std::numeric_limits<std::int64_t>::max());
      for (const std::size_t one : view.open) {
        const EngineReport& report = view.reports[one];
        state.loads[one] =
            4 * (std::int64_t{report.waiting} + report.preempted + view.sent[one].requests) + report.running;
      }
    }
    const auto least = std::min_element(state.loads.begin(), state.loads.end());
    *least += 4;
    return static_cast<std::size_t>(least - state.loads.begin());
  }
};

static_assert(Router<LeastLoaded>);

} // namespace sluice
