// SPDX-License-Identifier: Apache-2.0
// --bound: what no system can exceed on a comparison's machine and workload.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/request.hpp"

#include "compare/comparison.hpp"

#include <span>
#include <string>

namespace compared {

/// Checks `--bound` before anything runs: whether this build can solve it, and whether the bound is one of this
/// machine and these requests.
sluice::Status check_bound(const Comparison& comparison, std::span<const sluice::RequestSpec> requests,
                           bool have_content);

/// Computes the bounds of every SLO scale, and sets them in the report and in its rows.
void add_bounds(const Comparison& comparison, sluice::ComparisonReport& report);

/// The report's bounds as a table for a terminal.
std::string bound_text(const sluice::ComparisonReport& report);

/// A bound in per cent; if it is not proven the least, with what is found in parentheses.
std::string possible_text(const sluice::PossibleShare& bound);

/// Whether this build has CBC, which solves mixed-integer programs.
bool can_bound();

} // namespace compared
