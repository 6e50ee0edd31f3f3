// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/kvpr.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System kvpr() {
  System system =
      entry<sluice::Kvpr>("Kvpr", "all KV on the host, some layers rebuilt from activations, the others fetched");
  system.rebuilds_kv = true;
  return system;
}

} // namespace engines
