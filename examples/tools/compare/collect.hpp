// SPDX-License-Identifier: Apache-2.0
// collect: a report's row of what was recorded of a run.
#pragma once

#include "compare/recorded.hpp"
#include "compare/run.hpp"

#include <span>

namespace compared {

/// Makes a report's row, and a trace where details were asked for.
void collect(const Request& request, const Ended& ended, const Recorded& recorded, Outcome& outcome);

/// The same of a node: of all tenants together, and of each.
void collect(const Request& request, const Ended& ended, std::span<const Recorded* const> recorded, Outcome& outcome);

} // namespace compared
