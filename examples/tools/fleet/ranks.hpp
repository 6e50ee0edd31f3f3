// SPDX-License-Identifier: Apache-2.0
// start_ranks: the processes of --mpi.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/fleet/ranks.hpp"

#include <memory>

namespace fleets {

/// The ranks that mpirun started, of which this process is one. Error: this build has no MPI.
[[nodiscard]] sluice::Expected<std::unique_ptr<sluice::Ranks>> start_ranks();

} // namespace fleets
