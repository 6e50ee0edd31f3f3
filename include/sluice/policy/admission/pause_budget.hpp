// SPDX-License-Identifier: Apache-2.0
// PauseBudget: how many deadlines pauses may miss for the tokens that are generated.
#pragma once

#include "sluice/state/view/view.hpp"

#include <cmath>

namespace sluice {

/// A part of admission policies that pause requests for others by choice. They may as long as all pauses have missed
/// fewer than `misses` deadlines per generated token, divided by (1 + running)^1.5: where many run, one of them ends
/// soon, so that room comes by itself.
struct PauseBudget {
  double misses = 0.8; ///< deadlines that pauses may miss per token generated, divided by (1 + running)^1.5

  struct State {
    double spent = 0; ///< deadlines that pauses have missed
    Seconds now{0};   ///< of the last proposal
  };

  /// Counts the deadlines that paused requests without a deposit have missed since the last proposal. A TBT SLO of 0
  /// has no deadlines that a pause could miss: every token is late, paused or not.
  static void look_back(const View& view, State& state) {
    for (const Slot slot : view.preempted)
      if (const RequestRow& row = view.row(slot); row.deposit().count() == 0 && row.spec.slo.tbt.count() > 0)
        state.spent += (view.now - state.now) / row.spec.slo.tbt;
    state.now = view.now;
  }
  /// Whether one more request may be paused.
  [[nodiscard]] bool allows(const View& view, const State& state) const {
    const double batch = 1 + static_cast<double>(view.running.size());
    return misses * static_cast<double>(view.served->tokens) / (batch * std::sqrt(batch)) > state.spent;
  }
};

} // namespace sluice
