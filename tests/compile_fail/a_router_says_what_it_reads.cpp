// SPDX-License-Identifier: Apache-2.0
// A router without what it reads, without its window, and that chooses no number of an engine: one message for each.
// sentences: 3
// says: this Router needs .static constexpr RouterReads reads
// says: this Router needs .Seconds every
// says: this Router needs .std::size_t choose\(const FleetView&, const RoutedRequest&, State&\) const
#include "sluice/fleet/router.hpp"

#include <cstddef>

struct FirstOfAll {
  using role = sluice::roles::Router;
  struct State {};
#ifdef GOOD
  static constexpr sluice::RouterReads reads{.load = true};
  sluice::Seconds every{0.1};
  std::size_t choose(const sluice::FleetView& view, const sluice::RoutedRequest&, State&) const {
    return view.open.front();
  }
#else
  static constexpr bool reads = true;
  double every = 0.1;
  bool choose(const sluice::FleetView&, const sluice::RoutedRequest&, State&) const { return true; }
#endif
};

static_assert(sluice::explain<FirstOfAll>());
