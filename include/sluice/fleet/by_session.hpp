// SPDX-License-Identifier: Apache-2.0
// BySession: all requests of a session go to one engine.
#pragma once

#include "sluice/fleet/router.hpp"
#include "sluice/workload/content.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Rendezvous hashing (Thaler and Ravishankar, 1998): session and engine are hashed together, and the highest hash
/// wins. If an engine dies, only its sessions move; if one opens, it gets its share of each. A request without a
/// session is hashed by its number, so such requests are spread at random. O(engines) per request.
struct BySession {
  using role = roles::Router;
  static constexpr RouterReads reads{};
  struct State {};

  Seconds every{0.1};
  std::uint64_t seed = 1;

  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest& request, State& /*state*/) const {
    const bool has_session = request.spec.session != 0;
    const BlockKey who =
        next_key(BlockKey{seed}, has_session ? request.spec.session : (std::uint64_t{1} << 32) + request.number);
    std::size_t best = view.open.front();
    BlockKey highest{};
    for (const std::size_t one : view.open)
      if (const BlockKey hash = next_key(who, one); hash >= highest) {
        highest = hash;
        best = one;
      }
    return best;
  }
};

static_assert(Router<BySession>);

} // namespace sluice
