// SPDX-License-Identifier: Apache-2.0
#include "fleet/ranks.hpp"

#include "sluice/fleet/mpi/ranks.hpp"

namespace fleets {

sluice::Expected<std::unique_ptr<sluice::Ranks>> start_ranks() {
  return std::unique_ptr<sluice::Ranks>(std::make_unique<sluice::MpiRanks>());
}

} // namespace fleets
