// SPDX-License-Identifier: Apache-2.0
// RoundRobin: each engine in turn.
#pragma once

#include "sluice/fleet/router.hpp"

#include <cstddef>

namespace sluice {

/// The engines that take requests, in the order of their numbers, whatever their load.
struct RoundRobin {
  using role = roles::Router;
  static constexpr RouterReads reads{};
  struct State {
    std::size_t last = 0; ///< the engine that got the last request, plus 1
  };

  Seconds every{0.1};

  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest& /*request*/, State& state) const {
    std::size_t next = view.open.front();
    if (view.open.size() == view.engines()) // all: no need to search
      next = state.last < view.engines() ? state.last : 0;
    else
      for (const std::size_t one : view.open)
        if (one >= state.last) {
          next = one;
          break;
        }
    state.last = next + 1;
    return next;
  }
};

static_assert(Router<RoundRobin>);

} // namespace sluice
