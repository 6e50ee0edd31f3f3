// SPDX-License-Identifier: Apache-2.0
// Once: one plan for the whole run (FlexGen).
#pragma once

#include "sluice/policy/replan/replan.hpp"

namespace sluice {

/// Plans only if there is no plan yet. The placement must state a rule for requests that it has not seen.
struct Once {
  using role = roles::Replan;
  struct State {};

  bool due(const View& view, const State& /*state*/, std::uint64_t /*candidates*/) const {
    return view.plan->made_at_step < 0;
  }
  Window window() const { return {1, 1}; }
  void observe(State& /*state*/, Seconds /*predicted*/, Seconds /*measured*/) const {}
  void planned(State& /*state*/) const {}
};

static_assert(Replan<Once>);

} // namespace sluice
