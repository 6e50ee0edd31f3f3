// SPDX-License-Identifier: Apache-2.0
// EveryStep: a new plan for every iteration.
#pragma once

#include "sluice/policy/replan/replan.hpp"

namespace sluice {

struct EveryStep {
  using role = roles::Replan;
  struct State {};

  bool due(const View& /*view*/, const State& /*state*/, std::uint64_t /*candidates*/) const { return true; }
  Window window() const { return {1, 1}; }
  void observe(State& /*state*/, Seconds /*predicted*/, Seconds /*measured*/) const {}
  void planned(State& /*state*/) const {}
};

static_assert(Replan<EveryStep>);

} // namespace sluice
