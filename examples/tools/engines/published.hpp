// SPDX-License-Identifier: Apache-2.0
// The rows of the registry, one function each; families/ defines each next to the engine type that it instantiates.
#pragma once

#include "engines/system.hpp"

namespace engines {

System all_resident();
System one_at_a_time();
System vllm_recompute();
System vllm_swap();
System swapped_first();
System waiting_first();
System sjf_oracle();
System length_ranked();
System future_memory();
System superinfer();
System deepspeed_inference();
System flexgen();
System flexgen_plus();
System slo_aware();
System dynamic_heuristic();
System vllm_recompute_sized();
System vllm_swap_sized();
System hcache();
System ellm();
System deepspeed_weights();
System flexgen_weights();
System select_n();
System pie();
System mirage();
System mirage_one_slot();
System mirage_no_reversion();
System orbitflow_uniform();
System orbitflow_request_wise();
System orbitflow_pause();
System orbitflow();
System orbitflow_pool();
System orbitflow_srtf();
System orbitflow_pause_shortest();
System orbitflow_pause_random();
System orbitflow_even();

} // namespace engines
