// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/fastserve.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System fastserve() {
  return entry<sluice::FastServe>("FastServe", "skip-join feedback queue by run time, KV copied ahead");
}

} // namespace engines
