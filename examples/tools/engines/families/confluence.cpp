// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/confluence.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System confluence() {
  return tenants_entry<sluice::Confluence, sluice::Uncoordinated>(
      "Confluence", "this project's: slack first, joins if worth it, pauses on a budget");
}

} // namespace engines
