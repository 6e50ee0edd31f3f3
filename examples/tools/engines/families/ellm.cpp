// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/ellm.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System vllm_recompute_sized() {
  return entry<sluice::VllmRecomputeSized>("VllmRecomputeSized",
                                           "vLLM with its batch sized to the SLO, as eLLM compares with it");
}
System vllm_swap_sized() { return entry<sluice::VllmSwapSized>("VllmSwapSized", "the same, swapping"); }
System ellm() { return entry<sluice::Ellm>("Ellm", "the oldest tokens without KV, swapped and recomputed"); }

} // namespace engines
