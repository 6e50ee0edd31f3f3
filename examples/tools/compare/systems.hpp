// SPDX-License-Identifier: Apache-2.0
// The systems of a comparison, and the numbers of their policies.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/shape.hpp"

#include "compare/comparison.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace compared {

/// Finds systems by their comma-separated names, or all. With `host_attends`, all has those too whose host attends
/// decodes.
sluice::Expected<std::vector<const System*>> chosen_systems(const std::string& list, bool host_attends = false);

/// Finds a transfer rule by its name; empty for `own`. Error: there is none, or this build has no systems on it.
sluice::Expected<std::string_view> rule_of(const std::string& name);

/// Refuses flags for policies that none of these systems has, if the user named them. (A preset's flags are left over
/// where the user names others.)
sluice::Status check_effects(const Options& options, const std::vector<const System*>& systems);

/// Sets numbers of single policies, first from their own flags, then from --set, and Select-N's record. Errors: --set
/// names no number of these systems, or the record is of another model.
sluice::Status set_policies(const Options& options, const sluice::ModelShape& shape, Comparison& c);

} // namespace compared
