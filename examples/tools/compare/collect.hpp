// SPDX-License-Identifier: Apache-2.0
// collect: makes a report's row from a recorded run.
#pragma once

#include "compare/recorded.hpp"
#include "compare/run.hpp"

#include <span>

namespace compared {

/// Makes a report's row, and a trace if details were requested.
void collect(const Request& request, const Ended& ended, const Recorded& recorded, Outcome& outcome);

/// The same for a node: one row for all tenants together, and one for each tenant.
void collect(const Request& request, const Ended& ended, std::span<const Recorded* const> recorded, Outcome& outcome);

} // namespace compared
