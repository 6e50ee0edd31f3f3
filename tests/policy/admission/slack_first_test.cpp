// SPDX-License-Identifier: Apache-2.0
// SlackFirst: its order against a sort of all requests, whom it presses on, and the chunks that an SLO bears.
#include "sluice/policy/admission/slack_first.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Waiting requests with any size, arrival and SLO, entered in the order of their arrival.
std::vector<Slot> enter_waiting(HandMade& made, Random& random, std::int64_t count, const SlackFirst& policy,
                                SlackFirst::State& state) {
  std::vector<Slot> waiting;
  for (std::int64_t i = 0; i < count; ++i) {
    const Slot slot = made.add(Tokens{between(random, 1, 40)}, Tokens{50}, Tokens{0}, Tokens{0}, Phase::waiting);
    RequestRow& row = made.rows[index(slot)];
    row.spec.arrival = Seconds{80 + static_cast<double>(i)};
    row.spec.slo = {.ttft = Seconds{static_cast<double>(between(random, 1, 30))}, .tbt = Seconds{0.1}};
    waiting.push_back(slot);
    policy.enter(state, slot, row);
  }
  return waiting;
}

/// One request that decodes and has an SLO between its tokens alone.
HandMade one_decoding() {
  HandMade made;
  made.limits = {.batch = 100, .batch_tokens = Tokens{100'000}};
  const Slot decodes = made.decoding(Tokens{10}, Tokens{5}, Tokens{1000});
  made.rows[index(decodes)].spec.slo = {.ttft = Seconds{1e9}, .tbt = Seconds{0.1}};
  return made;
}

} // namespace

TEST_CASE("with known lengths a newcomer's size is its prompt and its output") {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    HandMade made;
    made.limits = {.batch = 100, .batch_tokens = Tokens{100'000}};
    BasicSlackFirst<KnownLength> policy;
    BasicSlackFirst<KnownLength>::State state;
    std::vector<std::pair<std::int64_t, std::uint32_t>> expected; // size, slot
    for (std::int64_t i = between(random, 1, 12); i > 0; --i) {
      const Slot slot = made.add(Tokens{between(random, 1, 40)}, Tokens{between(random, 1, 40)}, Tokens{0}, Tokens{0},
                                 Phase::waiting);
      RequestRow& row = made.rows[index(slot)];
      row.spec.slo = {.ttft = Seconds{1e6}, .tbt = Seconds{0.1}};
      policy.enter(state, slot, row);
      if (random.below(4) == 0)
        policy.leave(state, slot, row);
      else
        expected.emplace_back((row.spec.prompt + row.output(not_a_policy)).count(), index(slot));
    }
    Proposal proposal;
    policy.propose(made.view(), state, proposal);
    std::sort(expected.begin(), expected.end());
    REQUIRE(proposal.claims.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(index(proposal.claims[i].slot) == expected[i].second);
  }
}

TEST_CASE("newcomers join in time first, the smallest first, then late ones, the smallest first") {
  Random random(4);
  int both = 0;
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    HandMade made;
    made.limits = {.batch = 100, .batch_tokens = Tokens{100'000}};
    SlackFirst policy;
    SlackFirst::State state;
    std::vector<Slot> waiting = enter_waiting(made, random, between(random, 1, 12), policy, state);
    for (std::int64_t i = between(random, 0, 3); i > 0; --i) {
      const Slot slot = made.add(Tokens{between(random, 1, 40)}, Tokens{50}, Tokens{5}, Tokens{0}, Phase::preempted);
      made.rows[index(slot)].may_return = random.below(4) > 0;
      made.preempted.push_back(slot);
    }
    for (std::int64_t i = between(random, 0, 3); i > 0 && !waiting.empty(); --i) { // some are cancelled
      const auto gone = waiting.begin() + between(random, 0, static_cast<std::int64_t>(waiting.size()) - 1);
      policy.leave(state, *gone, made.rows[index(*gone)]);
      waiting.erase(gone);
    }
    Proposal proposal;
    policy.propose(made.view(), state, proposal);

    std::vector<std::tuple<int, std::int64_t, std::uint32_t>> expected; // group, size, slot
    int late = 0;
    for (const Slot slot : made.preempted)
      if (made.rows[index(slot)].may_return)
        expected.emplace_back(0, made.rows[index(slot)].context().count(), index(slot));
    for (const Slot slot : waiting) {
      const RequestRow& row = made.rows[index(slot)];
      const bool is_late = row.spec.arrival + row.spec.slo.ttft < made.now;
      late += is_late;
      expected.emplace_back(is_late ? 2 : 1, row.context().count(), index(slot));
    }
    std::sort(expected.begin(), expected.end());
    REQUIRE(proposal.claims.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(index(proposal.claims[i].slot) == std::get<2>(expected[i]));
      CHECK_FALSE(proposal.claims[i].required); // nobody runs, so nobody could pay
    }
    both += late > 0 && late < static_cast<int>(waiting.size());
  }
  CHECK(both > 100);
}

TEST_CASE("once in `turn` joins the oldest late request is next, however large") {
  HandMade made;
  made.limits = {.batch = 1, .batch_tokens = Tokens{100'000}};
  SlackFirst policy;
  policy.turn = 3;
  SlackFirst::State state;
  const auto wait = [&](std::int64_t prompt) {
    const Slot slot = made.add(Tokens{prompt}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
    RequestRow& row = made.rows[index(slot)];
    row.spec.arrival = Seconds{static_cast<double>(index(slot))};
    row.spec.slo = {.ttft = Seconds{1}, .tbt = Seconds{0.1}};
    policy.enter(state, slot, row);
  };
  wait(1000);
  for (int i = 0; i < 8; ++i) wait(10 + i);
  std::vector<std::uint32_t> joined;
  for (int i = 0; i < 5; ++i) {
    Proposal proposal;
    policy.propose(made.view(), state, proposal);
    REQUIRE(proposal.claims.size() == 1);
    const Slot slot = proposal.claims.front().slot;
    joined.push_back(index(slot));
    policy.leave(state, slot, made.rows[index(slot)]);
  }
  CHECK(joined == std::vector<std::uint32_t>{1, 2, 3, 0, 4});
}

TEST_CASE("the smallest newcomer presses once the most urgent has waited, after those that run and before all others") {
  Random random(5);
  int pressed = 0, not_pressed = 0, by_another = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    HandMade made;
    made.limits = {.batch = 100, .batch_tokens = Tokens{100'000}};
    SlackFirst policy;
    policy.patience = 0.5;
    SlackFirst::State state;
    const std::int64_t running = between(random, 0, 3);
    for (std::int64_t i = 0; i < running; ++i) {
      const Slot slot = made.decoding(Tokens{300}, Tokens{400 + i}, Tokens{1000}); // ahead by 100 s: each could pay
      RequestRow& row = made.rows[index(slot)];
      row.spec.arrival = row.first_token = Seconds{99};
      row.spec.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.25}};
    }
    for (const Slot slot : enter_waiting(made, random, between(random, 1, 3), policy, state))
      made.rows[index(slot)].waits = random.below(4) == 0; // for a tier's blocks
    made.served.tokens = between(random, 0, 1);
    Proposal proposal;
    policy.propose(made.view(), state, proposal);
    const auto claim =
        std::find_if(proposal.claims.begin(), proposal.claims.end(), [](const Claim& one) { return one.presses(); });
    // By hand: of the newcomers in time that wait for no tier the smallest, and the one with the first deadline.
    const RequestRow *smallest = nullptr, *urgent = nullptr;
    const auto deadline = [](const RequestRow& row) { return row.spec.arrival + row.spec.slo.ttft; };
    for (const RequestRow& row : made.rows) {
      if (row.phase != Phase::waiting || row.waits || deadline(row) < made.now) continue;
      if (smallest == nullptr || row.context() < smallest->context()) smallest = &row;
      if (urgent == nullptr || deadline(row) < deadline(*urgent)) urgent = &row;
    }
    const bool expected = urgent != nullptr && running > 0 && made.served.tokens > 0 &&
                          (made.now - urgent->spec.arrival) > 0.5 * urgent->spec.slo.ttft;
    REQUIRE((claim != proposal.claims.end()) == expected);
    ++(expected ? pressed : not_pressed);
    if (!expected) continue;
    by_another += smallest != urgent;
    CHECK(claim->required);
    CHECK(made.rows[index(claim->slot)].id == smallest->id);
    CHECK(index(claim->at_cost_of) == static_cast<std::uint32_t>(running - 1)); // the furthest ahead
    CHECK(claim == proposal.claims.begin() + running);
    CHECK(std::count_if(proposal.claims.begin(), proposal.claims.end(),
                        [&](const Claim& one) { return one.slot == claim->slot; }) == 1);
  }
  CHECK(pressed > 50);
  CHECK(not_pressed > 50);
  CHECK(by_another > 20);
}

TEST_CASE("a newcomer presses before a paused request only on a budget, and if its prompt can be computed in time") {
  for (const auto& with : {std::pair{true, true}, std::pair{false, true}, std::pair{true, false}}) {
    const bool computable = with.first, budget = with.second;
    CAPTURE(computable);
    CAPTURE(budget);
    HandMade made;
    made.limits = {.batch = 100, .batch_tokens = Tokens{100'000}};
    made.served.tokens = budget ? 1'000'000 : 0;
    SlackFirst policy;
    SlackFirst::State state;
    state.chunk.step_s = 0.1;                                                // 256 prompt tokens each
    const Slot runs = made.decoding(Tokens{300}, Tokens{400}, Tokens{1000}); // ahead by 100 s
    const Slot rests = made.add(Tokens{10}, Tokens{900}, Tokens{40}, Tokens{40}, Phase::preempted);
    made.preempted.push_back(rests);
    for (const Slot slot : {runs, rests}) {
      RequestRow& row = made.rows[index(slot)];
      row.spec.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.25}};
      row.spec.arrival = row.first_token = made.now - Seconds{slot == runs ? 1.0 : 40 * 0.25 - 4}; // 4 s of slack
      row.may_return = true;
    }
    const Slot waits = made.add(Tokens{computable ? 256 : 2560}, Tokens{50}, Tokens{0}, Tokens{0}, Phase::waiting);
    RequestRow& row = made.rows[index(waits)]; // 0.1 or 1 s of prompt, and half a second left
    row.spec.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.25}};
    row.spec.arrival = made.now - Seconds{4.5};
    policy.enter(state, waits, row);
    Proposal proposal;
    policy.propose(made.view(), state, proposal);
    const auto claim =
        std::find_if(proposal.claims.begin(), proposal.claims.end(), [](const Claim& one) { return one.presses(); });
    REQUIRE(claim != proposal.claims.end());
    CHECK(claim->slot == (computable && budget ? waits : rests));
  }
}

TEST_CASE("in a full batch a newcomer presses for the payer's place once little time is left and nobody is paused") {
  for (const int places : {1, 2})
    for (const double left : {0.29, 0.31})
      for (const bool paused : {false, true}) {
        CAPTURE(places);
        CAPTURE(left);
        CAPTURE(paused);
        HandMade made;
        made.limits = {.batch = places, .batch_tokens = Tokens{100'000}};
        made.served.tokens = 1'000'000;
        SlackFirst policy;
        SlackFirst::State state;
        const Slot runs = made.decoding(Tokens{300}, Tokens{400}, Tokens{1000}); // ahead by 100 s
        const Slot waits = made.add(Tokens{30}, Tokens{50}, Tokens{0}, Tokens{0}, Phase::waiting);
        if (paused)
          made.preempted.push_back(made.add(Tokens{10}, Tokens{900}, Tokens{40}, Tokens{40}, Phase::preempted));
        for (RequestRow& row : made.rows) {
          row.spec.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.25}};
          row.spec.arrival = row.first_token = made.now - Seconds{1};
        }
        RequestRow& row = made.rows[index(waits)];
        row.spec.arrival = made.now - Seconds{(1 - left) * 5};
        policy.enter(state, waits, row);
        Proposal proposal;
        policy.propose(made.view(), state, proposal);
        const bool full = places == 1, presses = !full || (left < 0.3 && !paused);
        REQUIRE(proposal.claims.size() == (presses ? 2 : 1));
        if (!presses) continue;
        CHECK(proposal.claims.back().slot == waits);
        CHECK(proposal.claims.back().at_cost_of == runs);
        CHECK(proposal.claims.back().instead == full);
      }
}

TEST_CASE("chunks follow the SLO of those that decode, whatever a prompt token costs") {
  Random random(6);
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    const double fixed = 0.01 + 0.02 * random.uniform(), per_token = 1e-5 * (1 + 20 * random.uniform());
    HandMade made;
    made.limits = {.batch = 100, .batch_tokens = Tokens{100'000}};
    const Slot decodes = made.decoding(Tokens{10}, Tokens{5}, Tokens{1000});
    const Slot prompt = made.add(Tokens{1'000'000}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::running);
    made.running.push_back(prompt);
    const Seconds slo{0.1};
    made.rows[index(decodes)].spec.slo = {.ttft = Seconds{1e9}, .tbt = slo};
    made.rows[index(prompt)].spec.slo = {.ttft = Seconds{1e9}, .tbt = slo};
    SlackFirst policy;
    SlackFirst::State state;
    double step = 0;
    for (int i = 0; i < 60; ++i) {
      Proposal proposal;
      policy.propose(made.view(), state, proposal);
      REQUIRE(proposal.claims.size() == 2);
      CHECK(proposal.claims.front().tokens == Tokens{1}); // the decode first
      step = fixed + per_token * static_cast<double>(proposal.claims.back().tokens.count());
      made.now += Seconds{step};
      ++made.step;
    }
    CHECK(step == doctest::Approx(policy.chunk.share * slo.count()).epsilon(0.05));
  }
}

TEST_CASE("a first token that would otherwise be late raises the budget beyond the SLO's chunk") {
  HandMade made = one_decoding();
  PromptChunk chunk;
  PromptChunk::State state;
  state.step_s = 0.1;
  RequestRow newest;
  newest.spec.prompt = Tokens{8000};
  newest.spec.arrival = made.now;
  newest.spec.slo.ttft = Seconds{10};
  CHECK(chunk.budget(made.view(), state, nullptr) == Tokens{1 + 256});
  newest.spec.slo.ttft = Seconds{1000};
  CHECK(chunk.budget(made.view(), state, &newest) == Tokens{1 + 256});
  newest.spec.slo.ttft = Seconds{2}; // 1.6 s at 0.1 s each: 16 iterations
  CHECK(chunk.budget(made.view(), state, &newest) == Tokens{1 + 500});
}

TEST_CASE("a waiting request without a TTFT SLO does not hide the deadline of another") {
  for (const bool with_other : {false, true}) {
    CAPTURE(with_other);
    HandMade made = one_decoding();
    SlackFirst policy;
    SlackFirst::State state;
    state.chunk.step_s = 0.1;
    const auto wait = [&](Tokens prompt, Seconds ttft) {
      const Slot slot = made.add(prompt, Tokens{50}, Tokens{0}, Tokens{0}, Phase::waiting);
      made.rows[index(slot)].spec.arrival = made.now;
      made.rows[index(slot)].spec.slo = {.ttft = ttft, .tbt = Seconds{0.1}};
      policy.enter(state, slot, made.rows[index(slot)]);
    };
    wait(Tokens{8000}, Seconds{1});
    if (with_other) wait(Tokens{9000}, Seconds{std::numeric_limits<double>::infinity()});
    Proposal proposal;
    policy.propose(made.view(), state, proposal);
    REQUIRE(proposal.claims.size() >= 2);
    // 8,000 tokens in 0.8 of a second, in steps of 0.1 s; without the deadline the chunk would have 256.
    CHECK(proposal.claims[1].tokens == Tokens{1000});
  }
}

TEST_CASE("a deadline that is all but over asks for a whole budget") {
  HandMade made = one_decoding();
  PromptChunk chunk;
  PromptChunk::State state;
  state.step_s = 0.1;
  RequestRow newest;
  newest.spec.prompt = Tokens{8000};
  newest.spec.arrival = Seconds{0};
  newest.spec.slo.ttft = Seconds{std::nextafter(made.now.count(), 1e9)};
  CHECK(chunk.budget(made.view(), state, &newest) == made.limits.batch_tokens);
}
