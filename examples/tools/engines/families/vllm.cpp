// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/vllm.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System vllm_recompute() {
  return tenants_entry<sluice::VllmRecompute, sluice::Uncoordinated>("VllmRecompute",
                                                                     "vLLM: preempt the newest, compute it again");
}
System vllm_swap() {
  return tenants_entry<sluice::VllmSwap, sluice::Uncoordinated>("VllmSwap",
                                                                "vLLM: preempt the newest, swap it out and in");
}
System vllm_prefix_caching() {
  return entry<sluice::VllmPrefixCaching>("VllmPrefixCaching",
                                          "vLLM: released blocks are found until they are overwritten");
}
System vllm_priority() {
  return entry<sluice::VllmPriority>("VllmPriority", "vLLM: by the users' priorities, preemptions included");
}
System vllm_priority_preempts() {
  return entry<sluice::VllmPriorityPreempts>("VllmPriorityPreempts",
                                             "the same, where urgent newcomers preempt (vllm#40004)");
}
System swapped_first() {
  return simulated_entry<sluice::VllmSwap>("SwappedFirst", "swapped-out requests return before newcomers");
}

} // namespace engines
