// SPDX-License-Identifier: Apache-2.0
// mpi_crew: a crew of processes, started by mpirun on as many machines. All that knows of MPI is in this folder.
#pragma once

#include "sluice/core/expected.hpp"

#include "shared/crew.hpp"

#include <memory>

namespace sluice {

/// Joins the ranks that mpirun (or srun) started; rank 0 leads. The others tell nothing from here on: their output is
/// closed, for each would say what rank 0 says. An error in a build without MPI.
Expected<std::unique_ptr<Crew>> mpi_crew();

} // namespace sluice
