// SPDX-License-Identifier: Apache-2.0
#include "fleet/ranks.hpp"

namespace fleets {

sluice::Expected<std::unique_ptr<sluice::Ranks>> start_ranks() {
  return sluice::Error{sluice::ErrorCode::unsupported, "--mpi", "this build has no MPI",
                       "Debian's libopenmpi-dev when CMake configures, or no --mpi"};
}

} // namespace fleets
