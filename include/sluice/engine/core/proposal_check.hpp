// SPDX-License-Identifier: Apache-2.0
// The check of every proposal: an admission's mistake ends the run with a sentence instead of a wrong result.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/engine/core/core.hpp"
#include "sluice/engine/core/decision.hpp"
#include "sluice/engine/core/draft.hpp"

namespace sluice {

/// The first mistake of the drafted proposal, in every build. It claims live requests, each once, required ones first,
/// within the batch and the token budget, and no more tokens than a request has to compute; it claims every running
/// request or lets it leave, which only a running request does; it refuses only requests that have never run; and it
/// claims preempted requests only if Relief lets them return. Prompts and decodes have the budget each for themselves:
/// with prefill first they never share an iteration. The cost grows with the claims and the running requests, not with
/// the waiting ones.
[[nodiscard]] ProposalMistake proposal_mistake(const Core& core, Draft& draft);

namespace detail {
/// The mistake as a sentence.
[[nodiscard]] Error impossible_proposal(const Core& core, const ProposalMistake& mistake, Seconds now);
} // namespace detail

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/engine/core/proposal_check.inl.hpp" // IWYU pragma: keep
#endif
