// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/other_admissions.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System one_at_a_time() {
  System system = tenants_entry<sluice::OneAtATime, sluice::Uncoordinated>(
      "OneAtATime", "one request at a time, all resident: the control row");
  system.control = true;
  return system;
}

} // namespace engines
