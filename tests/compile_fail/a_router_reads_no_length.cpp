// SPDX-License-Identifier: Apache-2.0
// No router knows how long an answer will be.
// sentences: 1
// says: no server knows how long an answer will be
#include "sluice/fleet/router.hpp"

#include <cstddef>

struct ShortAnswersFirst {
  using role = sluice::roles::Router;
  static constexpr sluice::RouterReads reads{};
  struct State {};
  sluice::Seconds every{0.1};
  std::size_t choose(const sluice::FleetView& view, const sluice::RoutedRequest& request, State&) const {
#ifdef GOOD
    return request.spec.prompt.count() > 100 ? view.open.front() : view.open.back();
#else
    return request.spec.output.count() > 100 ? view.open.front() : view.open.back();
#endif
  }
};

static_assert(sluice::explain<ShortAnswersFirst>());
