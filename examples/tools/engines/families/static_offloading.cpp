// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/superinfer.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System waiting_first() { return entry<sluice::WaitingFirst>("WaitingFirst", "newcomers before swapped-out requests"); }

} // namespace engines
