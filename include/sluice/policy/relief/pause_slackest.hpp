// SPDX-License-Identifier: Apache-2.0
// PauseSlackest: preempts the request whose pause costs least.
#pragma once

#include "sluice/policy/relief/relief.hpp"
#include "sluice/state/view/slack.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace sluice {

/// If KV has grown beyond memory, the newest request is preempted, which loses the least work. If a newcomer presses,
/// the request whose pause costs least does (`PauseOrder`): one that has missed its SLO, then one with deposited
/// tokens, then the one furthest ahead of its deadlines. A paused request may return as soon as there is room.
struct PauseSlackest {
  using role = roles::Relief;
  struct State {};
  static constexpr Parting parting = Parting::preempt;

  std::size_t choose(const View& view, State& /*state*/, std::span<const Claim> candidates) const {
    const auto comes = [&view](const Claim& claim) { return view.row(claim.slot).phase == Phase::waiting; };
    if (std::none_of(candidates.begin(), candidates.end(), comes)) return candidates.size() - 1;
    std::size_t chosen = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i) // ties go to the last that joined
      if (order(view, candidates[i]) >= order(view, candidates[chosen])) chosen = i;
    return chosen;
  }
  bool may_return(const View& /*view*/, const RequestRow& /*row*/) const { return true; }

 private:
  static PauseOrder order(const View& view, const Claim& claim) {
    return PauseOrder::of(view.row(claim.slot), view.now);
  }
};

static_assert(Relief<PauseSlackest>);

} // namespace sluice
