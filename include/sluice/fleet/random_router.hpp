// SPDX-License-Identifier: Apache-2.0
// RandomRouter: any engine, each with the same probability.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/fleet/router.hpp"
#include "sluice/workload/content.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// A random number below `bound`, the same for equal `seed` and `number`.
[[nodiscard]] constexpr std::uint64_t drawn(std::uint64_t seed, std::uint64_t number, std::uint64_t bound) {
  return Random{static_cast<std::uint64_t>(next_key(BlockKey{seed}, number))}.below(bound);
}

/// Draws from the engines that take requests, by seed and the request's number.
struct RandomRouter {
  using role = roles::Router;
  static constexpr RouterReads reads{};
  struct State {};

  Seconds every{0.1};
  std::uint64_t seed = 1;

  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest& request, State& /*state*/) const {
    return view.open[drawn(seed, request.number, view.open.size())];
  }
};

static_assert(Router<RandomRouter>);

} // namespace sluice
