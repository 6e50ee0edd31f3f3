// SPDX-License-Identifier: Apache-2.0
// Without CBC there are no bounds; check_bound() says so.
#include "compare/bound.hpp"

namespace compared {

bool can_bound() { return false; }

void add_bounds(const Comparison& /*comparison*/, sluice::ComparisonReport& /*report*/) {}

} // namespace compared
