// SPDX-License-Identifier: Apache-2.0
// DistancesForAll: Confluence's placement with distances for batches of any size.
#pragma once

#include "sluice/policy/placement/worth_joining.hpp"

namespace sluice::bench {

/// WorthJoining decides who joins, as in Confluence; `Distances`, such as GroupedDistance, places all of them. No plan
/// may miss a deadline, as in ByBatchSize.
template <class Distances>
struct DistancesForAll : BasicWorthJoining<Distances> {
  constexpr DistancesForAll() { this->places.options.alpha = 0; }
};

} // namespace sluice::bench
