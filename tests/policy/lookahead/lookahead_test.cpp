// SPDX-License-Identifier: Apache-2.0
// Lookahead: the concept, and how long planning takes on the clock. (tests/engine/simulate_test.cpp has the effect of
// deciding ahead on a run.)
#include "sluice/policy/lookahead/in_step.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"

#include <doctest/doctest.h>

using namespace sluice;

namespace {

/// A minimal Lookahead.
struct Free {
  using role = roles::Lookahead;
  static constexpr bool ahead = false;
  Seconds planning_time(std::int64_t) const { return Seconds{0}; }
};
struct PricesInNumbers : Free {
  double planning_time(std::int64_t) const { return 0; }
};
struct SaysNotWhen : Free {
  struct ahead {};
};

static_assert(Lookahead<Free> && Lookahead<InStep> && Lookahead<OneStepAhead>);
static_assert(!Lookahead<PricesInNumbers> && !Lookahead<SaysNotWhen>);
static_assert(OneStepAhead::ahead && !InStep::ahead);

} // namespace

TEST_CASE_TEMPLATE("planning takes time in proportion to its effort", P, InStep, OneStepAhead) {
  const P policy{.per_effort = Seconds{3e-6}};
  CHECK(policy.planning_time(0) == Seconds{0});
  for (std::int64_t effort = 1; effort < 1'000'000; effort *= 7)
    CHECK(policy.planning_time(effort).count() == doctest::Approx(3e-6 * static_cast<double>(effort)));
}
