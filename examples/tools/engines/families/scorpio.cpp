// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/scorpio.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System scorpio() {
  return entry<sluice::Scorpio>("Scorpio", "least deadline first, within the tightest TPOT, by credits");
}

} // namespace engines
