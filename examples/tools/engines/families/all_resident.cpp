// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/engine.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

/// Runs only for real: comparisons have OneAtATime as the control.
System all_resident() {
  System system{.name = "AllResident",
                .what = "everything on the device, first come, first served: what the others are compared with"};
  add_real<sluice::Engine<>>(system);
  return system;
}

} // namespace engines
