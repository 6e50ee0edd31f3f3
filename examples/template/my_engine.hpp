// SPDX-License-Identifier: Apache-2.0
// MyEngine: vLLM's server, but for who gives way when the device's memory is full.
#pragma once

#include <sluice/engine/systems/vllm.hpp>

#include <cstddef>
#include <span>

/// vLLM preempts whoever joined last, however little that frees, and may have to preempt the next at once. Here whoever
/// holds most of the device gives way: one preemption makes most room, at the price of most bytes to bring back.
struct PreemptLargest {
  using role = sluice::roles::Relief;
  struct State {}; // it remembers nothing
  static constexpr sluice::Parting parting = sluice::Parting::preempt;

  /// The index of the victim; of two that hold the same the one that joined last.
  std::size_t choose(const sluice::View& view, State&, std::span<const sluice::Claim> candidates) const {
    std::size_t largest = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i)
      if (held(view, candidates[i]) >= held(view, candidates[largest])) largest = i;
    return largest;
  }

  /// Whether a preempted request may come back, as soon as there is room: always.
  bool may_return(const sluice::View&, const sluice::RequestRow&) const { return true; }

 private:
  static sluice::Tokens held(const sluice::View& view, const sluice::Claim& claim) {
    return view.row(claim.slot).computed;
  }
};

static_assert(sluice::explain<PreemptLargest>()); // misspell a hook, and this line says which

using MyEngine = sluice::With<sluice::VllmSwap, PreemptLargest>;
