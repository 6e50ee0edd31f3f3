// SPDX-License-Identifier: Apache-2.0
// LargeYields: the requests that leave, are overdue or have a turn, against the rule by hand. The bound that follows is
// in tests/engine/large_wait_test.
#include "sluice/policy/admission/large_yields.hpp"
#include "sluice/policy/admission/slack_first.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr double unit_s = 4; // TTFT SLO

/// A device of 100 tokens, where outputs have had 40.
HandMade small_device() {
  HandMade made;
  made.limits = {.batch = 100, .batch_tokens = Tokens{100'000}, .block_tokens = Tokens{10}};
  made.ledger = Ledger{LayerBlocks{10 * made.geometry.layers}, LayerBlocks{1 << 20}};
  for (int i = 0; i < 5; ++i) made.lengths.learn(Tokens{40});
  return made;
}
/// A request of any size around the device's, behind its schedule or not, that runs or is paused.
Slot any_request(HandMade& made, Random& random, Phase phase) {
  const Slot slot = made.add(Tokens{60}, Tokens{900}, Tokens{between(random, 36, 44)}, Tokens{60}, phase);
  RequestRow& row = made.rows[index(slot)];
  row.computed = row.context() - Tokens{1};
  row.spec.slo = {.ttft = Seconds{unit_s}, .tbt = Seconds{0.3}};
  row.spec.arrival = row.first_token = made.now - Seconds{static_cast<double>(between(random, 5, 40))};
  row.times_preempted = phase == Phase::preempted || random.below(2) == 0;
  row.running_since = made.now - Seconds{8 * random.uniform()};
  row.preempted_since = made.now - Seconds{static_cast<double>(between(random, 0, 40))};
  row.may_return = random.below(4) > 0;
  (phase == Phase::running ? made.running : made.preempted).push_back(slot);
  return slot;
}
/// By hand: more than 100 tokens with the next one, which is due before now.
bool yields(const HandMade& made, Slot slot) {
  const RequestRow& row = made.rows[index(slot)];
  return row.context() >= Tokens{100} &&
         row.spec.arrival.count() + unit_s + 0.3 * static_cast<double>(row.generated.count()) < made.now.count();
}

} // namespace

TEST_CASE("a request that yields leaves for a newcomer in time that is expected to fit, one at a time, after a turn") {
  Random random(3);
  int left = 0, stayed = 0, barred = 0;
  for (int round = 0; round < 5000; ++round) {
    CAPTURE(round);
    HandMade made = small_device();
    SlackFirst policy;
    SlackFirst::State state;
    Slot expected = nobody;
    for (std::int64_t i = between(random, 1, 2); i > 0; --i) {
      const Slot slot = any_request(made, random, Phase::running);
      if (expected == nobody && yields(made, slot) &&
          made.now.count() - made.rows[index(slot)].running_since.count() >= unit_s)
        expected = slot;
    }
    if (random.below(2) == 0)
      if (const Slot slot = any_request(made, random, Phase::preempted); yields(made, slot)) {
        barred += expected != nobody && !made.rows[index(slot)].may_return;
        expected = nobody; // even if the paused one may not return yet
      }
    bool comes = false;
    for (std::int64_t i = between(random, 0, 2); i > 0; --i) {
      const Slot slot = made.add(Tokens{between(random, 50, 70)}, Tokens{50}, Tokens{0}, Tokens{0}, Phase::waiting);
      RequestRow& row = made.rows[index(slot)];
      row.spec.arrival = made.now - Seconds{static_cast<double>(between(random, 1, 6))};
      row.spec.slo = {.ttft = Seconds{unit_s}, .tbt = Seconds{1}};
      row.waits = random.below(4) == 0;
      policy.enter(state, slot, row);
      const bool in_time = row.spec.arrival.count() + unit_s >= made.now.count();
      comes = comes || (!row.waits && in_time && row.context() + Tokens{40} <= Tokens{100});
    }
    if (!comes) expected = nobody;
    Proposal proposal;
    policy.propose(made.view(), state, proposal);
    ++(expected == nobody ? stayed : left);
    CHECK(proposal.leaving == (expected == nobody ? std::vector<Slot>{} : std::vector<Slot>{expected}));
    for (const Slot slot : made.running) // each of the others has its claim, and the one that leaves has none
      CHECK(std::count_if(proposal.claims.begin(), proposal.claims.end(),
                          [&](const Claim& one) { return one.slot == slot; }) == (slot == expected ? 0 : 1));
  }
  CHECK(left > 100);
  CHECK(stayed > 1000);
  CHECK(barred > 20);
}

TEST_CASE("a large request does not leave for a newcomer whose prompt cannot be computed in time") {
  for (const double token_s : {0.01, 0.1}) {
    CAPTURE(token_s);
    HandMade made = small_device();
    made.lengths = {};
    Random random(1);
    Slot large = any_request(made, random, Phase::running);
    made.rows[index(large)].generated = Tokens{50};
    made.rows[index(large)].spec.arrival = made.now - Seconds{90};
    made.rows[index(large)].running_since = made.now - Seconds{20};
    SlackFirst policy;
    SlackFirst::State state;
    state.chunk.step_s = token_s * state.chunk.tokens;
    state.chunk.step = -1;
    const Slot slot = made.add(Tokens{50}, Tokens{9}, Tokens{0}, Tokens{0}, Phase::waiting);
    made.rows[index(slot)].spec.slo = {.ttft = Seconds{unit_s}, .tbt = Seconds{1}};
    made.rows[index(slot)].spec.arrival = made.now;
    policy.enter(state, slot, made.rows[index(slot)]);
    Proposal proposal;
    policy.propose(made.view(), state, proposal);
    CHECK(proposal.leaving.size() == (50 * token_s < unit_s ? 1 : 0));
  }
}

TEST_CASE("of the paused requests that yield one is overdue when none has had a turn for long, the longest paused") {
  Random random(7);
  const LargeYields policy;
  int overdue = 0, spared = 0, early = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    HandMade made = small_device();
    LargeYields::State state;
    state.served = made.now - Seconds{static_cast<double>(between(random, 20, 40))};
    double served = state.served.count();
    std::vector<Slot> turns, paused;
    bool waits = false;
    for (std::int64_t i = between(random, 0, 3); i > 0; --i) {
      const Slot slot = any_request(made, random, Phase::running);
      const RequestRow& row = made.rows[index(slot)];
      if (row.times_preempted == 0 || !yields(made, slot)) continue;
      const double end = row.running_since.count() + unit_s;
      if (made.now.count() < end)
        turns.push_back(slot);
      else
        served = std::max(served, end);
    }
    for (std::int64_t i = between(random, 0, 3); i > 0; --i) {
      const Slot slot = any_request(made, random, Phase::preempted);
      if (!yields(made, slot)) continue;
      waits = true;
      const auto later = [&](Slot one) {
        return made.rows[index(one)].preempted_since > made.rows[index(slot)].preempted_since;
      };
      if (made.rows[index(slot)].may_return) paused.insert(std::find_if(paused.begin(), paused.end(), later), slot);
    }
    if (!waits && turns.empty()) served = made.now.count();
    policy.look_back(made.view(), state);
    CHECK(state.turns == turns);
    CHECK(state.paused == paused);
    const bool is = !paused.empty() && turns.empty() && made.now.count() - served >= 8 * unit_s;
    CHECK(state.overdue == (is ? paused.front() : nobody));
    overdue += is;
    spared += !turns.empty();
    early += !is && !paused.empty();
    CHECK(state.served.count() == doctest::Approx(served));
  }
  CHECK(overdue > 100);
  CHECK(spared > 100);
  CHECK(early > 100);
}

TEST_CASE("a request that yields returns between newcomers in time and late ones, and before all once it is overdue") {
  for (const bool overdue : {false, true})
    for (const bool has_slo : {true, false}) {
      CAPTURE(overdue);
      CAPTURE(has_slo);
      HandMade made = small_device();
      Random random(1);
      SlackFirst policy;
      SlackFirst::State state;
      const auto wait = [&](std::int64_t prompt, double waited_s) {
        const Slot slot = made.add(Tokens{prompt}, Tokens{50}, Tokens{0}, Tokens{0}, Phase::waiting);
        made.rows[index(slot)].spec.arrival = made.now - Seconds{waited_s};
        made.rows[index(slot)].spec.slo = {.ttft = Seconds{unit_s}, .tbt = Seconds{1}};
        policy.enter(state, slot, made.rows[index(slot)]);
        return slot;
      };
      const Slot late = wait(20, 9), in_time = wait(30, 1), grows = wait(61, 1);
      const auto pause = [&](std::int64_t generated) {
        const Slot slot = any_request(made, random, Phase::preempted);
        RequestRow& row = made.rows[index(slot)];
        row.generated = Tokens{generated};
        row.spec.arrival = made.now - Seconds{60};
        row.may_return = true;
        if (!has_slo) row.spec.slo.ttft = Seconds{std::numeric_limits<double>::infinity()};
        return slot;
      };
      const Slot large = pause(41), fits = pause(39);
      state.large.served = made.now - (overdue ? 8 : 7.9) * Seconds{unit_s};
      Proposal proposal;
      policy.propose(made.view(), state, proposal);
      std::vector<Slot> order;
      for (const Claim& claim : proposal.claims) order.push_back(claim.slot);
      CHECK(order == (!has_slo  ? std::vector<Slot>{fits, large, in_time, late, grows}
                      : overdue ? std::vector<Slot>{large, fits, in_time, late, grows}
                                : std::vector<Slot>{fits, in_time, large, late, grows}));
    }
}

TEST_CASE("while a request that yields is overdue no other presses, and one that has its turn does not pay") {
  for (const bool overdue : {false, true})
    for (const bool turn : {false, true}) {
      CAPTURE(overdue);
      CAPTURE(turn);
      HandMade made = small_device();
      Random random(1);
      const auto large = [&](Phase phase) {
        const Slot slot = any_request(made, random, phase);
        RequestRow& row = made.rows[index(slot)];
        row.generated = row.delivered = Tokens{41};
        row.spec.arrival = made.now - Seconds{60};
        row.may_return = true;
        row.times_preempted = turn || phase == Phase::preempted ? 1 : 0;
        row.preempted_since = made.now - Seconds{1};
        row.running_since = made.now - Seconds{turn ? 0.5 * unit_s : 1.5 * unit_s};
        return slot;
      };
      const Slot runs = large(Phase::running), waits = large(Phase::preempted);
      const Slot small = made.add(Tokens{10}, Tokens{90}, Tokens{20}, Tokens{29}, Phase::preempted);
      RequestRow& row = made.rows[index(small)]; // its TPOT is late in 1 s
      row.spec.slo = {.ttft = Seconds{unit_s}, .tbt = Seconds{0.3}};
      row.spec.arrival = row.first_token = made.now - Seconds{20 * 0.3 - 1};
      row.may_return = true;
      made.preempted.push_back(small);
      SlackFirst policy;
      SlackFirst::State state;
      state.large.served = made.now - (overdue ? 9 : 7) * Seconds{unit_s};
      Proposal proposal;
      policy.propose(made.view(), state, proposal);
      std::vector<Slot> pressing;
      for (const Claim& claim : proposal.claims)
        if (claim.presses()) {
          pressing.push_back(claim.slot);
          CHECK(claim.at_cost_of == runs);
        }
      CHECK(state.large.overdue == (overdue && !turn ? waits : nobody));
      CHECK(pressing == (turn ? std::vector<Slot>{} : std::vector<Slot>{overdue ? waits : small}));
    }
}
