// SPDX-License-Identifier: Apache-2.0
// A sharing policy without `slowdown`.
// sentences: 1
// says: this Sharing policy needs .double slowdown\(const Occupancy&\) const.
#include "sluice/engine/node/sharing.hpp"

struct OnlyTheFirst : sluice::OwnDevices {
#ifndef GOOD
  void slowdown() const {}
#endif
  bool may_run(State&, const sluice::Occupancy&, std::size_t engine, sluice::Seconds) const { return engine == 0; }
};

static_assert(sluice::explain<OnlyTheFirst>());
