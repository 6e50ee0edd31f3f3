// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/hcache.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System hcache() { return entry<sluice::HCache>("HCache", "the same, moving hidden states of some layers"); }

} // namespace engines
