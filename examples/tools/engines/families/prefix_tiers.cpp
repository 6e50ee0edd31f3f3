// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/prefix_tiers.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System vllm_offload() {
  return entry<sluice::VllmOffload>("VllmOffload", "vLLM's offloading connector: requests wait for loads");
}
System lmcache() {
  return entry<sluice::Lmcache>("Lmcache",
                                          "LMCache: prompts' chunks of 256 tokens, written and loaded in the step");
}
System hicache() {
  return entry<sluice::HiCache>("HiCache", "SGLang's HiCache: written behind, loaded layer by layer");
}
System hicache_back() {
  return entry<sluice::HiCacheBack>("HiCacheBack", "HiCache that writes what the device overwrites");
}
System hicache_if_faster() {
  return entry<sluice::HiCacheIfFaster>("HiCacheIfFaster", "HiCache that loads what is slower to compute");
}
System hicache_within_slos() {
  return entry<sluice::HiCacheWithinSlos>("HiCacheWithinSlos",
                                                    "HiCache that loads what keeps TTFT and everybody's TBT");
}
System kvbm() {
  return entry<sluice::Kvbm>("Kvbm", "Dynamo's KVBM: to the host, and to a disk when used again");
}
System mooncake_store() {
  return simulated_entry<sluice::MooncakeStore>("MooncakeStore",
                                                "Mooncake Store: a pool over RDMA, which evicts to an SSD");
}
System cake() {
  return simulated_entry<sluice::Cake>("Cake", "Cake: computes a prefix's beginning while its end is loaded");
}

System orbitflow_cached() {
  return entry<sluice::OrbitFlowCached>("OrbitFlowCached",
                                                  "OrbitFlowPool whose host also keeps prefixes of ended requests");
}

System cached_attention() {
  return entry<sluice::CachedAttention>("CachedAttention",
                                                  "CachedAttention: fetched and kept for requests that wait");
}
System adaptive_offload() {
  return entry<sluice::AdaptiveOffload>("AdaptiveOffload",
                                                  "VllmOffload that pauses while first tokens are slow");
}

System continuum() {
  return entry<sluice::Continuum>("Continuum", "Continuum: the oldest program first, its KV pinned for 2 s");
}

System infercept() {
  return entry<sluice::InferCept>("InferCept", "InferCept: preserve, swap or discard by least waste");
}

System kv_flow() {
  return entry<sluice::KvFlow>("KvFlow",
                                         "KVFlow's idea: keeps and fetches what clients announce the soonest");
}
System hicache_hints() {
  return entry<sluice::HiCacheHints>("HiCacheHints", "HiCache that reads what clients say of their KV");
}

} // namespace engines
