// SPDX-License-Identifier: Apache-2.0
// PauseBudget: what pauses spend, and when another pause is allowed.
#include "sluice/policy/admission/pressing.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

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
  const PauseBudget budget{.misses = 0.1 * std::pow(2, 1.5), .window = 1e9}; // 100 tokens, one running: 10 deadlines
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

TEST_CASE("a pause before the first token spends no budget: it misses no deadline of a token") {
  HandMade made;
  const Slot slot = made.add(Tokens{10}, Tokens{90}, Tokens{0}, Tokens{0}, Phase::preempted);
  made.rows[index(slot)].spec.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.05}};
  made.preempted.push_back(slot);
  PauseBudget::State state;
  PauseBudget{}.look_back(made.view(), state);
  made.now += Seconds{10};
  PauseBudget{}.look_back(made.view(), state);
  CHECK(state.spent == 0);
}

TEST_CASE("a TBT SLO of 0 spends no budget, paused or not, from the first proposal on") {
  HandMade made;
  const Slot rests = pause_one(made, Seconds{0});
  const PauseBudget budget{.window = 1e12};
  PauseBudget::State state;
  state.spent = 3;
  state.now = made.now;
  for (const double passed_s : {0.0, 10.0}) {
    made.now += Seconds{passed_s};
    budget.look_back(made.view(), state);
    CHECK(state.spent == doctest::Approx(3));
  }
  made.rows[index(rests)].spec.slo.tbt = Seconds{2};
  made.now += Seconds{10};
  budget.look_back(made.view(), state);
  CHECK(state.spent == doctest::Approx(8));
}

TEST_CASE("tokens and misses halve in a window, however often the policy looks") {
  for (const int looks : {1, 7, 1000}) {
    CAPTURE(looks);
    HandMade made;
    const PauseBudget budget{.window = 30};
    PauseBudget::State state;
    state.now = made.now;
    state.tokens = 800;
    state.spent = 80;
    for (int i = 0; i < looks; ++i) {
      made.now += Seconds{90.0 / looks};
      budget.look_back(made.view(), state);
    }
    CHECK(state.tokens == doctest::Approx(100));
    CHECK(state.spent == doctest::Approx(10));
  }
}

TEST_CASE("neither does a quiet hour pay for a busy one, nor does an overload forbid pauses for ever") {
  // Minutes with so many tokens and one request that is paused or not; what would be allowed at the end of the last?
  struct Minutes {
    int count;
    std::int64_t tokens;
    bool paused;
  };
  const auto allows_after = [](const PauseBudget& budget, std::initializer_list<Minutes> past) {
    HandMade made;
    PauseBudget::State state;
    state.now = made.now;
    for (int i = 0; i < 3; ++i) made.decoding(Tokens{10}, Tokens{10}, Tokens{20});
    const Slot rests = pause_one(made, Seconds{paused_tbt_s}); // 240 deadlines in a minute
    for (const Minutes& part : past)
      for (int i = 0; i < part.count; ++i) {
        made.now += Seconds{60};
        made.served.tokens += part.tokens;
        made.rows[index(rests)].delivered = Tokens{part.paused ? 50 : 0};
        budget.look_back(made.view(), state);
      }
    return budget.allows(made.view(), state);
  };
  const PauseBudget halves{.misses = 0.8}, remembers{.misses = 0.8, .window = 1e9};
  const Minutes busy{20, 2000, true}, quiet{120, 12'000, false}, overload{600, 100, true}, usual{60, 12'000, false};
  CHECK_FALSE(allows_after(halves, {busy})); // 240 misses in a minute, and its 2000 tokens pay for 200
  CHECK_FALSE(allows_after(halves, {quiet, busy, busy, busy}));
  CHECK(allows_after(remembers, {quiet, busy, busy, busy}));
  CHECK_FALSE(allows_after(halves, {overload}));
  CHECK(allows_after(halves, {overload, usual}));
  CHECK_FALSE(allows_after(remembers, {overload, usual}));
}
