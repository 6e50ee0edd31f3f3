// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/neo.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System neo() {
  System system = entry<sluice::Neo>("Neo", "the host attends some of the decodes, over KV in its own memory");
  system.host_attends = true;
  return system;
}

} // namespace engines
