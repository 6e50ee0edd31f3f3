// SPDX-License-Identifier: Apache-2.0
// Replan: when a plan is due.
#include "sluice/policy/replan/decode_window.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/replan/on_batch_change.hpp"
#include "sluice/policy/replan/once.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A minimal Replan.
struct Never {
  using role = roles::Replan;
  struct State {};
  bool due(const View&, const State&, std::uint64_t) const { return false; }
  Window window() const { return {1, 1}; }
  void observe(State&, Seconds, Seconds) const {}
  void planned(State&) const {}
};
struct WithoutWindow : Never {
  int window() const { return 1; }
};
struct WritesState : Never {
  bool due(const View&, State&, std::uint64_t) const {
    return false;
  } // deciding when to plan must not change the state
};
struct Unobservant : Never {
  void observe(State&) const {}
};

static_assert(Replan<Never> && Replan<Once> && Replan<OnBatchChange> && Replan<EveryStep> && Replan<DecodeWindow>);
static_assert(!Replan<WithoutWindow> && !Replan<WritesState> && !Replan<Unobservant>);

template <class P>
bool due(const P& policy, const HandMade& made, std::uint64_t candidates, typename P::State state = {}) {
  return policy.due(made.view(), state, candidates);
}

/// Any plan, no plan, or an expired one; any candidates, the same or others.
struct Case {
  HandMade made;
  std::uint64_t candidates;
  bool planned, same, expired;
};
Case random_case(Random& random) {
  Case any{{}, random.below(4), random.below(4) != 0, false, false};
  any.made.step = between(random, 0, 20);
  any.made.plan.made_at_step = any.planned ? between(random, 0, any.made.step) : -1;
  any.made.plan.candidates = random.below(4);
  any.made.plan.expires_at_step = between(random, 0, 25);
  any.same = any.made.plan.candidates == any.candidates;
  any.expired = any.made.step >= any.made.plan.expires_at_step;
  return any;
}

} // namespace

TEST_CASE("each policy plans on its own conditions and no others") {
  Random random(51);
  for (int round = 0; round < 500; ++round) {
    const Case any = random_case(random);
    CHECK(due(Once{}, any.made, any.candidates) == !any.planned);
    CHECK(due(OnBatchChange{}, any.made, any.candidates) == (!any.planned || !any.same));
    CHECK(due(EveryStep{}, any.made, any.candidates));
    CHECK(due(DecodeWindow{}, any.made, any.candidates) == (!any.planned || !any.same || any.expired));
    CHECK(due(DecodeWindow{}, any.made, any.candidates, {.mismatched = true}));
  }
}

TEST_CASE("DecodeWindow plans again once measured times leave the profile") {
  Random random(52);
  for (int round = 0; round < 500; ++round) {
    DecodeWindow policy;
    policy.mismatch = 0.05 + 0.4 * random.uniform();
    const double predicted = 0.01 + random.uniform(), measured = predicted * (0.4 + 1.2 * random.uniform());
    DecodeWindow::State state;
    policy.observe(state, Seconds{predicted}, Seconds{measured});
    const double off = measured > predicted ? measured - predicted : predicted - measured;
    CHECK(state.mismatched == (off > policy.mismatch * predicted));
    const bool before = state.mismatched;
    policy.observe(state, Seconds{predicted}, Seconds{predicted});
    CHECK_MESSAGE(state.mismatched == before, "an iteration as predicted does not undo an earlier one");
    policy.planned(state);
    CHECK_FALSE(state.mismatched);
  }
}

TEST_CASE("windows have the policy's length") {
  CHECK(OnBatchChange{}.window().max == 1);
  const DecodeWindow policy{.min_steps = 3, .max_steps = 9};
  CHECK(policy.window().min == 3);
  CHECK(policy.window().max == 9);
}
