// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/pie.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System pie() {
  return entry<sluice::Pie>("Pie",
                            "KV of the fewest layers swapped in and out in every step, as long as that is hidden");
}

} // namespace engines
