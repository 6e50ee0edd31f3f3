// SPDX-License-Identifier: Apache-2.0
// MyEngine: vLLM's server with another choice of the request to preempt when device memory is full.
#pragma once

#include <sluice/engine/systems/vllm.hpp>

#include <cstddef>
#include <span>

/// vLLM preempts the newest request even if that frees little, and may have to preempt the next one at once. This
/// policy preempts the largest request: one preemption frees the most memory, but the most bytes must come back.
struct PreemptLargest {
  using role = sluice::roles::Relief;
  struct State {}; // no state
  static constexpr sluice::Parting parting = sluice::Parting::preempt;

  /// Returns the index of the victim; of two that are equally large, the newer one.
  std::size_t choose(const sluice::View& view, State&, std::span<const sluice::Claim> candidates) const {
    std::size_t largest = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i)
      if (held(view, candidates[i]) >= held(view, candidates[largest])) largest = i;
    return largest;
  }

  /// Whether a preempted request may return, as soon as there is room: always.
  bool may_return(const sluice::View&, const sluice::RequestRow&) const { return true; }

 private:
  static sluice::Tokens held(const sluice::View& view, const sluice::Claim& claim) {
    return view.row(claim.slot).computed;
  }
};

static_assert(sluice::explain<PreemptLargest>()); // misspell a hook, and this line says which

using MyEngine = sluice::With<sluice::VllmSwap, PreemptLargest>;
