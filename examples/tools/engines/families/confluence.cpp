// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/confluence.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System confluence() {
  return entry<sluice::Confluence>("Confluence", "this project's: slack first, joins if worth it, pauses on a budget");
}

} // namespace engines
