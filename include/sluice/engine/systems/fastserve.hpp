// SPDX-License-Identifier: Apache-2.0
// FastServe: preemptive scheduling without known lengths, with KV swapped ahead.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/skip_join_mlfq.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/keep_copied.hpp"

namespace sluice {

/// FastServe (Wu et al., "Fast Distributed Inference Serving for Large Language Models", arXiv 2305.05920):
///
///   section 4.1   skip-join multi-level feedback queue                  SkipJoinMlfq
///   section 4.2   KV goes to the host before memory is needed           KeepCopied: a clean block is free at once
///   section 4.2   and comes back before its request runs                KeepCopied, OneStepAhead
///   section 4.2   both in the order of the estimated next runs          NextScheduled, as Proposal::next
///
/// Read differently: the paper offloads whole requests once few blocks are free; here their full blocks are copied
/// while the link is idle, and what has a copy leaves the device when its room is needed. On a real backend KV returns
/// with its request and not before, and no reserve grows with past bursts. Prompts are computed in chunks, as in every
/// chunked engine here.
using FastServe = Engine<SkipJoinMlfq, KeepCopied, OneStepAhead>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<FastServe::composition>;
#endif

} // namespace sluice
