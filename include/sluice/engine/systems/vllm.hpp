// SPDX-License-Identifier: Apache-2.0
// vLLM: everything resident, preempts the newest request, or the least urgent, by recomputation or by swapping.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/priority_first.hpp"
#include "sluice/policy/placement/all_resident.hpp"
#include "sluice/policy/relief/preempt_least_urgent.hpp"
#include "sluice/policy/relief/preempt_newest.hpp"
#include "sluice/policy/retention/drop.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

namespace sluice {

/// vLLM V1 (SOSP 2023, section 4.5; vllm/v1/core/sched): first come, first served, prompts in chunks of the token
/// budget that decodes leave. If a block is missing, the newest request is preempted: its KV is dropped, and it is
/// queued again at the front.
using VllmRecompute = Engine<Fcfs, AllResident, PreemptNewest, Drop>;

/// The same with automatic prefix caching, V1's default if the prompts are known: preempted requests, and prompts with
/// a common prefix, find released blocks until these are overwritten.
using VllmPrefixCaching = With<VllmRecompute, KeepUntilOverwritten>;

/// The first with `--scheduling-policy priority`: the queue is ordered by the users' priorities, and what is preempted
/// when memory is short is the running request of the largest number. A waiting request preempts nobody, however urgent
/// it is (vllm#40004).
using VllmPriority = With<VllmRecompute, PriorityFirst, PreemptLeastUrgent>;

/// The same, where a waiting request preempts running ones of a larger number if it lacks a place in the batch, as
/// vllm#45561 and vllm#54530 propose, or memory, as vLLM's V0 did (vllm#5958, `_schedule_priority_preemption`).
using VllmPriorityPreempts = With<VllmRecompute, PriorityPreempts, PreemptLeastUrgent>;

/// The first, with the KV of a preempted request swapped to the host and back (vLLM V0's swap, section 4.5).
using VllmSwap = Engine<Fcfs, AllResident, PreemptNewest, MoveToHost>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<VllmRecompute::composition>;
extern template class BasicEngine<VllmPrefixCaching::composition>;
extern template class BasicEngine<VllmSwap::composition>;
#endif

} // namespace sluice
