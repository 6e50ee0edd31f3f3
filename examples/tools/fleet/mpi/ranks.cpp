// SPDX-License-Identifier: Apache-2.0
#include "fleet/ranks.hpp"

#include "sluice/fleet/mpi/ranks.hpp"

#include <utility>

namespace fleets {

sluice::Expected<std::unique_ptr<sluice::Ranks>> start_ranks() {
  auto ranks = std::make_unique<sluice::MpiRanks>();
  if (!ranks->any_thread())
    return sluice::Error{sluice::ErrorCode::unsupported, "--mpi", "this MPI lets only the first thread call it",
                         "an MPI that provides MPI_THREAD_SERIALIZED"};
  return std::unique_ptr<sluice::Ranks>(std::move(ranks));
}

} // namespace fleets
