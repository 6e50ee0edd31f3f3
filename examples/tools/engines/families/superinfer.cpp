// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/superinfer.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System superinfer() {
  return entry<sluice::SuperInfer>("SuperInfer",
                                   "the largest virtual lag first, rotated through the host, copied ahead");
}

} // namespace engines
