// SPDX-License-Identifier: Apache-2.0
// Tally: the report's row of an explored engine: figures and refusals, without curves or timelines.
#pragma once

#include "compare/run.hpp"

namespace explored {

/// Runs an engine of `simulate` (engines::System::simulate) to its end. Keeps no timeline, because hundreds of engines
/// run. Errors: those of `compared::run`.
sluice::Status run_tallied(sluice::Expected<engines::Simulated> (*simulate)(const engines::Simulation&),
                           const compared::Request& request, compared::Outcome& outcome);

} // namespace explored
