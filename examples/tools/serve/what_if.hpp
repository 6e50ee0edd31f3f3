// SPDX-License-Identifier: Apache-2.0
// Selects the systems with which a server replays its requests.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/what_if.hpp"

#include "run/job.hpp"
#include "serve/system.hpp"

#include <string>
#include <vector>

namespace serving {

/// Returns the serving system, then those of --what-if. `wanted`: names separated by commas; empty: some suitable
/// systems; `none`: returns an empty list. Errors: a name is no system's. `served` must outlive the result.
sluice::Expected<std::vector<sluice::WhatIfSystem>>
what_if_systems(const engines::System& own, const std::string& wanted, const Served& served, sluice::Slo slo);

} // namespace serving
