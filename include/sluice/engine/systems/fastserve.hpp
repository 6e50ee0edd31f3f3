// SPDX-License-Identifier: Apache-2.0
// FastServe: preemptive scheduling without known lengths, with KV swapped ahead.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/skip_join_mlfq.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/eager_copy.hpp"

namespace sluice {

/// FastServe (Wu et al., "Fast Distributed Inference Serving for Large Language Models", arXiv 2305.05920):
///
///   section 4.1   skip-join multi-level feedback queue                  SkipJoinMlfq
///   section 4.2   KV goes to the host before memory is needed           EagerCopy: a clean block is free at once
///   section 4.2   and comes back before its request runs                OneStepAhead: decided an iteration before
///
/// Read differently: the paper swaps by the estimated time until a request runs next; here every full block is copied
/// ahead while the link is idle, and the requests of the lowest levels leave first. Prompts are computed in chunks, as
/// in every chunked engine here.
using FastServe = Engine<SkipJoinMlfq, EagerCopy, OneStepAhead>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<FastServe::composition>;
#endif

} // namespace sluice
