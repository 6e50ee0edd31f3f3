// SPDX-License-Identifier: Apache-2.0
// OnBatchChange: plans if the set of requests that want to run has changed (the default).
#pragma once

#include "sluice/policy/replan/replan.hpp"

namespace sluice {

struct OnBatchChange {
  using role = roles::Replan;
  struct State {};

  bool due(const View& view, const State& /*state*/, std::uint64_t candidates) const {
    return view.plan->made_at_step < 0 || view.plan->candidates != candidates;
  }
  Window window() const { return {1, 1}; }
  void observe(State& /*state*/, Seconds /*predicted*/, Seconds /*measured*/) const {}
  void planned(State& /*state*/) const {}
};

static_assert(Replan<OnBatchChange>);

template <>
struct Default<roles::Replan> {
  using type = OnBatchChange;
};

} // namespace sluice
