// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/kvpr.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System kvpr() {
  return entry<sluice::Kvpr>("Kvpr", "all KV on the host, some layers rebuilt from activations, the others fetched");
}

} // namespace engines
