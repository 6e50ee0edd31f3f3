// SPDX-License-Identifier: Apache-2.0
// DecodeWindow: plans if the batch changed, the plan expired, or iterations deviate from the prediction (OrbitFlow,
// section 3.4).
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/core/numbers.hpp"
#include "sluice/policy/replan/replan.hpp"

namespace sluice {

/// The solver says for how many steps its plan holds, within [min_steps, max_steps]. The plan stands until then, unless
/// the candidates change or an iteration's time deviates from its prediction by more than the fraction `mismatch`.
struct DecodeWindow {
  using role = roles::Replan;
  struct State {
    bool mismatched = false;
  };

  int min_steps = 1;
  int max_steps = 64;
  double mismatch = 0.2; ///< fraction of the predicted time ("configurable" in the paper)
  static constexpr auto numbers = Numbers{
      "DecodeWindow", Number{"min_steps", &DecodeWindow::min_steps, 1, Window::longest, "steps that a plan must hold"},
      Number{"max_steps", &DecodeWindow::max_steps, 1, Window::longest, "steps after which a plan is made anew"},
      Number{"mismatch", &DecodeWindow::mismatch, 0, 1e6, "deviation from the predicted time that makes one"}};

  bool due(const View& view, const State& state, std::uint64_t candidates) const {
    return view.plan->made_at_step < 0 || view.plan->candidates != candidates ||
           view.step >= view.plan->expires_at_step || state.mismatched;
  }
  Window window() const { return {min_steps, max_steps}; }
  void observe(State& state, Seconds predicted, Seconds measured) const {
    if (math::abs(measured.count() - predicted.count()) > mismatch * predicted.count()) state.mismatched = true;
  }
  void planned(State& state) const { state.mismatched = false; }
};

static_assert(Replan<DecodeWindow>);

} // namespace sluice
