// SPDX-License-Identifier: Apache-2.0
// LeastDeadlineFirst: the order of newcomers, the virtual batch, and how often a request takes part.
#include "sluice/policy/admission/least_deadline_first.hpp"

#include "support/hand_made.hpp"
#include "support/plain_estimate.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

struct DeadlineScene {
  HandMade made;
  LeastDeadlineFirst policy;
  LeastDeadlineFirst::State state;
  PlainEstimate costs;

  DeadlineScene() { made.limits = {.batch = 100, .batch_tokens = Tokens{100'000}}; }
  Slot wait(std::int64_t prompt, double ttft_s, double tpot_s) {
    const Slot slot = made.add(Tokens{prompt}, Tokens{1000}, Tokens{0}, Tokens{0}, Phase::waiting);
    RequestRow& row = made.rows[index(slot)];
    row.spec.arrival = made.now;
    row.spec.slo = {Seconds{ttft_s}, Seconds{tpot_s}};
    policy.enter(state, slot, row);
    return slot;
  }
  Slot decode(double tpot_s) {
    const Slot slot = made.decoding(Tokens{10}, Tokens{5}, Tokens{1000});
    made.rows[index(slot)].spec.slo = {Seconds{1}, Seconds{tpot_s}};
    policy.enter(state, slot, made.rows[index(slot)]);
    policy.leave(state, slot, made.rows[index(slot)]);
    return slot;
  }
  Proposal propose() {
    Proposal proposal;
    policy.propose(made.view(), state, proposal, costs.estimate());
    ++made.step;
    return proposal;
  }
};

std::vector<Slot> joined(const Proposal& proposal) {
  std::vector<Slot> slots;
  for (const Claim& claim : proposal.claims)
    if (!claim.required) slots.push_back(claim.slot);
  return slots;
}

std::vector<Slot> given_up(const Proposal& proposal) {
  std::vector<Slot> slots;
  for (const Refusal& one : proposal.refused) slots.push_back(one.slot);
  return slots;
}

} // namespace

TEST_CASE("newcomers join by the deadline of their first token; those that cannot keep it are refused, or go last") {
  Random random(9);
  int unattainable = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    DeadlineScene scene;
    scene.policy.rejects = round % 2 == 0;
    std::vector<Slot> all;
    for (std::int64_t i = between(random, 1, 8); i > 0; --i)
      all.push_back(scene.wait(between(random, 1, 60), 0.01 * static_cast<double>(between(random, 1, 30)), 10));
    std::vector<Slot> by_deadline = all, expected, behind;
    const auto due = [&](Slot slot) { return scene.made.rows[index(slot)].spec.slo.ttft.count(); };
    std::stable_sort(by_deadline.begin(), by_deadline.end(), [&](Slot a, Slot b) { return due(a) < due(b); });
    double ends = 0;
    for (const Slot slot : by_deadline) {
      const double prompt = 1e-3 * static_cast<double>(1 + scene.made.rows[index(slot)].spec.prompt.count());
      if (ends + prompt > due(slot) + 1e-9)
        behind.push_back(slot);
      else
        expected.push_back(slot), ends += prompt;
    }
    unattainable += static_cast<int>(behind.size());
    const Proposal proposal = scene.propose();
    if (scene.policy.rejects) {
      CHECK(given_up(proposal) == behind);
    } else {
      CHECK(proposal.refused.empty());
      expected.insert(expected.end(), behind.begin(), behind.end());
    }
    CHECK(joined(proposal) == expected);
  }
  CHECK(unattainable > 50);
}

TEST_CASE("as many join as keep the tightest TPOT, each with its share of a place") {
  for (const double relaxed : {1.0, 2.0, 4.0}) {
    DeadlineScene scene; // an iteration of n decodes takes 1 + n ms
    scene.decode(0.0095);
    for (int i = 0; i < 40; ++i) scene.wait(1, 5, 0.0095 * relaxed);
    // 8.5 places: the first request's own, and 1 / relaxed for each other, rounded up to whole decodes.
    CHECK(joined(scene.propose()).size() == static_cast<std::size_t>(7 * relaxed));
  }
}

TEST_CASE("a request takes part in the share of iterations that its TPOT asks for") {
  DeadlineScene scene;
  const std::vector<double> tpots{0.1, 0.2, 0.25, 0.4, std::numeric_limits<double>::infinity()};
  std::vector<Slot> slots;
  for (const double tpot : tpots) slots.push_back(scene.decode(tpot));
  std::vector<double> took(slots.size(), 0);
  for (int i = 0; i < 400; ++i) {
    const Proposal proposal = scene.propose();
    REQUIRE(proposal.claims.size() == slots.size());
    for (std::size_t k = 0; k < slots.size(); ++k) {
      CHECK(proposal.claims[k].slot == slots[k]);
      CHECK(proposal.claims[k].required);
      took[k] += static_cast<double>(proposal.claims[k].tokens.count());
    }
  }
  for (std::size_t k = 0; k < slots.size(); ++k)
    CHECK(took[k] == doctest::Approx(400 * std::max(scene.policy.least_share, 0.1 / tpots[k])).epsilon(0.01));
}

TEST_CASE("a request that waits for a tier's blocks is not refused, and neither delays the others nor takes a place") {
  for (const bool preempted : {false, true}) {
    DeadlineScene scene;
    scene.decode(0.0095); // an iteration of n decodes takes 1 + n ms: seven join beside this one
    const Slot loading = scene.wait(500, 0.1, 0.0095); // its prompt would take half a second
    RequestRow& row = scene.made.rows[index(loading)];
    row.waits = true;
    if (preempted) {
      scene.policy.leave(scene.state, loading, row);
      row.phase = Phase::preempted;
      row.may_return = true;
      scene.made.preempted.push_back(loading);
    }
    std::vector<Slot> others;
    for (int i = 0; i < 7; ++i) others.push_back(scene.wait(10, 0.2, 0.0095));
    const Proposal proposal = scene.propose();
    CHECK(proposal.refused.empty());
    CHECK(joined(proposal) == others);
  }
}

TEST_CASE("newcomers that are late are refused while no place is free, by the time of their own prompt") {
  for (const bool held_by_preempted : {false, true}) {
    CAPTURE(held_by_preempted);
    DeadlineScene scene;
    const int running = held_by_preempted ? 7 : 8;
    scene.made.limits.batch = held_by_preempted ? 100 : 8;
    for (int i = 0; i < running; ++i) scene.decode(0.0085); // 7 decodes take 8 ms, and another would take too long
    if (held_by_preempted) {
      const Slot slot = scene.made.add(Tokens{10}, Tokens{1000}, Tokens{5}, Tokens{0}, Phase::preempted);
      scene.made.rows[index(slot)].spec.slo = {Seconds{1}, Seconds{0.0085}};
      scene.made.rows[index(slot)].may_return = true;
      scene.made.preempted.push_back(slot);
    }
    std::vector<Slot> late;
    for (int i = 0; i < 20; ++i) late.push_back(scene.wait(200, 0.1, 1));
    for (int i = 0; i < 5; ++i) scene.wait(150, 0.2, 1); // in time: those before it have no place, and are not counted
    const Proposal proposal = scene.propose();
    CHECK(joined(proposal).empty());
    CHECK(given_up(proposal) == late);
    scene.policy.rejects = false;
    CHECK(scene.propose().refused.empty());
  }
}

TEST_CASE("a step looks at no more than a batch of newcomers that can keep their deadline") {
  DeadlineScene scene;
  scene.made.limits.batch = 4;
  for (int i = 0; i < 4; ++i) scene.decode(1);
  for (int i = 0; i < 4; ++i) scene.wait(1, 0.5, 1);
  const Slot beyond = scene.wait(1000, 0.6, 1); // late
  CHECK(scene.propose().refused.empty());
  const Slot first = scene.state.queue.begin()->slot;
  scene.policy.leave(scene.state, first, scene.made.rows[index(first)]);
  CHECK(given_up(scene.propose()) == std::vector<Slot>{beyond});
}
