// SPDX-License-Identifier: Apache-2.0
// Tally: the row of an engine that is explored: figures and refusals, no curves and no timelines.
#pragma once

#include "compare/run.hpp"

namespace explored {

/// Runs an engine of `simulate` (engines::System::simulate) to its end. Nobody reads a hundred timelines, so none is
/// kept. Errors: as `compared::run`.
sluice::Status run_tallied(sluice::Expected<engines::Simulated> (*simulate)(const engines::Simulation&),
                           const compared::Request& request, compared::Outcome& outcome);

} // namespace explored
