// SPDX-License-Identifier: Apache-2.0
// PauseBudget: what pauses spend, and when another pause is allowed.
#include "sluice/policy/admission/pause_budget.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cmath>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr double paused_tbt_s = 0.25;

/// A request that is paused, with 50 tokens.
Slot pause_one(HandMade& made, Seconds tbt) {
  const Slot rests = made.add(Tokens{10}, Tokens{900}, Tokens{50}, Tokens{50}, Phase::preempted);
  made.preempted.push_back(rests);
  made.rows[index(rests)].spec.slo = {.ttft = Seconds{5}, .tbt = tbt};
  return rests;
}

} // namespace

TEST_CASE("pauses spend the budget, and deposited tokens do not") {
  HandMade made;
  made.decoding(Tokens{10}, Tokens{1000}, Tokens{2000});
  const Slot rests = pause_one(made, Seconds{paused_tbt_s});
  const PauseBudget budget{.misses = 0.1 * std::pow(2, 1.5)}; // 100 tokens, one running: 10 deadlines
  PauseBudget::State state;
  state.now = made.now;
  CHECK_FALSE(budget.allows(made.view(), state)); // no token yet
  made.served.tokens = 100;
  budget.look_back(made.view(), state);
  CHECK(budget.allows(made.view(), state));
  made.now += Seconds{9 * paused_tbt_s};
  budget.look_back(made.view(), state);
  CHECK(state.spent == doctest::Approx(9));
  CHECK(budget.allows(made.view(), state));
  made.rows[index(rests)].delivered = Tokens{40};
  made.now += Seconds{9 * paused_tbt_s};
  budget.look_back(made.view(), state);
  CHECK(state.spent == doctest::Approx(9));
  made.rows[index(rests)].delivered = Tokens{50};
  made.now += Seconds{2 * paused_tbt_s};
  budget.look_back(made.view(), state);
  CHECK(state.spent == doctest::Approx(11));
  CHECK_FALSE(budget.allows(made.view(), state));
}

TEST_CASE("the more requests run, the fewer deadlines pauses may miss") {
  for (int running = 0; running < 20; ++running) {
    HandMade made;
    for (int i = 0; i < running; ++i) made.decoding(Tokens{10}, Tokens{10}, Tokens{20});
    made.served.tokens = 1000;
    PauseBudget::State state;
    PauseBudget{}.look_back(made.view(), state);
    const double most = PauseBudget{}.misses * 1000 / std::pow(1 + running, 1.5);
    state.spent = most * 0.999;
    CHECK(PauseBudget{}.allows(made.view(), state));
    state.spent = most * 1.001;
    CHECK_FALSE(PauseBudget{}.allows(made.view(), state));
  }
}

TEST_CASE("a TBT SLO of 0 spends no budget, paused or not, from the first proposal on") {
  HandMade made;
  const Slot rests = pause_one(made, Seconds{0});
  PauseBudget::State state;
  state.spent = 3;
  state.now = made.now;
  for (const double passed_s : {0.0, 10.0}) {
    made.now += Seconds{passed_s};
    PauseBudget{}.look_back(made.view(), state);
    CHECK(state.spent == 3);
  }
  made.rows[index(rests)].spec.slo.tbt = Seconds{2};
  made.now += Seconds{10};
  PauseBudget{}.look_back(made.view(), state);
  CHECK(state.spent == doctest::Approx(8));
}
