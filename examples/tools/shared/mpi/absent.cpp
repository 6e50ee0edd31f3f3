// SPDX-License-Identifier: Apache-2.0
// Replaces --mpi in a build without MPI by an error.
#include "shared/mpi/ranks.hpp"

namespace sluice {

Expected<std::unique_ptr<Crew>> mpi_crew() {
  return Error{ErrorCode::unsupported, "--mpi", "this program was built without MPI",
               "a build where CMake finds one, such as Debian's libopenmpi-dev"};
}

} // namespace sluice
