// SPDX-License-Identifier: Apache-2.0
// The systems that a server replays its requests through.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/what_if.hpp"

#include "run/job.hpp"
#include "serve/system.hpp"

#include <string>
#include <vector>

namespace serving {

/// The system that serves, then those of --what-if (`wanted`: names with commas between them, empty for some that suit,
/// `none` for none at all, and then the list is empty). Errors: a name that no system has. `served` outlives them.
sluice::Expected<std::vector<sluice::WhatIfSystem>>
what_if_systems(const engines::System& own, const std::string& wanted, const Served& served, sluice::Slo slo);

} // namespace serving
