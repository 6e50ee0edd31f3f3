// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/engine.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

/// Only run for real: in a comparison OneAtATime is the control.
System all_resident() {
  System system{.name = "AllResident",
                .what = "everything on the device, first come, first served: what the others are compared with"};
  add_real<sluice::Engine<>>(system);
  return system;
}

} // namespace engines
