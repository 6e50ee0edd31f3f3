// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/prefix_tiers.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System lmcache() {
  return simulated_entry<sluice::Lmcache>("Lmcache",
                                          "LMCache: prompts' chunks of 256 tokens, written and loaded in the step");
}
System hicache() {
  return simulated_entry<sluice::HiCache>("HiCache", "SGLang's HiCache: written behind, loaded layer by layer");
}
System hicache_if_faster() {
  return simulated_entry<sluice::HiCacheIfFaster>("HiCacheIfFaster", "HiCache that loads what is slower to compute");
}

} // namespace engines
