// SPDX-License-Identifier: Apache-2.0
// The published systems in the registry's order. A file of families/ defines each row beside its engine type.
#pragma once

#include "engines/system.hpp"

/// Calls `ROW(name)` for every system: the one list of them. To add a system, add its name here and define
/// `System name()` in families/.
// clang-format off
#define SLUICE_PUBLISHED_SYSTEMS(ROW) \
  ROW(all_resident) ROW(one_at_a_time) ROW(vllm_recompute) ROW(vllm_swap) ROW(vllm_prefix_caching) ROW(vllm_priority) \
  ROW(vllm_priority_preempts) ROW(swapped_first) \
  ROW(waiting_first) ROW(sjf_oracle) ROW(length_ranked) ROW(future_memory) ROW(superinfer) ROW(fastserve) ROW(scorpio) \
  ROW(neo) ROW(apt_serve) ROW(deepspeed_inference) ROW(kvpr) ROW(flexgen) ROW(flexgen_plus) ROW(slo_aware) \
  ROW(dynamic_heuristic) \
  ROW(vllm_recompute_sized) ROW(vllm_swap_sized) ROW(hcache) ROW(ellm) ROW(deepspeed_weights) \
  ROW(flexgen_weights) ROW(select_n) ROW(pie) ROW(mirage) ROW(mirage_one_slot) ROW(mirage_no_reversion) \
  ROW(orbitflow_uniform) ROW(orbitflow_request_wise) ROW(orbitflow_pause) ROW(orbitflow) \
  ROW(orbitflow_pool) ROW(confluence) ROW(orbitflow_srtf) ROW(orbitflow_pause_shortest) ROW(orbitflow_pause_random) \
  ROW(orbitflow_even) ROW(flexgen_fixed) ROW(vllm_prefill_first) ROW(mirage_prefill_first) ROW(vllm_offload) ROW(lmcache) ROW(hicache) ROW(hicache_back) ROW(hicache_if_faster) \
  ROW(hicache_within_slos) ROW(kvbm) ROW(mooncake_store) ROW(cake) ROW(cached_attention) ROW(adaptive_offload) \
  ROW(continuum) ROW(infercept) ROW(kv_flow) ROW(hicache_hints) ROW(orbitflow_cached)
// clang-format on

namespace engines {

#define SLUICE_DECLARE(name) System name();
SLUICE_PUBLISHED_SYSTEMS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

} // namespace engines
