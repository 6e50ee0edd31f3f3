// SPDX-License-Identifier: Apache-2.0
// mpi_crew: a crew of processes that mpirun started on several machines. Only this folder uses MPI.
#pragma once

#include "sluice/core/expected.hpp"

#include "shared/crew.hpp"

#include <memory>

namespace sluice {

/// Joins the ranks that mpirun (or srun) started; rank 0 leads. The other ranks print nothing after this call: their
/// output is closed, because each would print the same as rank 0. Returns an error in a build without MPI.
Expected<std::unique_ptr<Crew>> mpi_crew();

} // namespace sluice
