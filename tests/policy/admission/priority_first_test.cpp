// SPDX-License-Identifier: Apache-2.0
// PriorityFirst and PreemptLeastUrgent, against the rules written out over all requests.
#include "sluice/policy/admission/priority_first.hpp"
#include "sluice/policy/relief/preempt_least_urgent.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

static_assert(!PriorityFirst::knows_lengths && PriorityFirst::heeds_priority && PriorityPreempts::heeds_priority);

namespace {

/// Running, preempted and waiting requests of a few priorities, and batches that are full or not.
template <class Policy>
struct Requests {
  HandMade made;
  Policy policy;
  typename Policy::State state;
  std::vector<Slot> others; ///< preempted requests that may return, and waiting ones
  Proposal proposal;

  explicit Requests(Random& random) {
    made.limits.batch = static_cast<int>(between(random, 1, 8));
    made.limits.batch_tokens = Tokens{100'000};
    for (std::int64_t i = between(random, 0, made.limits.batch); i > 0; --i)
      urgent(random, made.decoding(Tokens{10}, Tokens{1}, Tokens{between(random, 2, 500)}));
    for (std::int64_t i = between(random, 0, 5); i > 0; --i) {
      const Slot slot = made.add(Tokens{5}, Tokens{9}, Tokens{2}, Tokens{0}, Phase::preempted);
      urgent(random, slot);
      made.preempted.push_back(slot);
      made.rows[index(slot)].may_return = random.below(4) > 0;
      if (made.rows[index(slot)].may_return) others.push_back(slot);
    }
    for (std::int64_t i = between(random, 0, 9); i > 0; --i) {
      const Slot slot = made.add(Tokens{between(random, 1, 100)}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
      urgent(random, slot);
      policy.enter(state, slot, made.rows[index(slot)]);
      others.push_back(slot);
    }
    std::sort(others.begin(), others.end(), [&](Slot a, Slot b) { return key(a) < key(b); });
    policy.propose(made.view(), state, proposal);
  }
  void urgent(Random& random, Slot slot) {
    made.rows[index(slot)].spec.priority = static_cast<std::int32_t>(between(random, -2, 2));
  }
  [[nodiscard]] std::pair<std::int32_t, RequestId> key(Slot slot) const {
    return {made.rows[index(slot)].spec.priority, made.rows[index(slot)].id};
  }
  [[nodiscard]] bool full() const { return static_cast<int>(made.running.size()) == made.limits.batch; }
};

} // namespace

TEST_CASE("PriorityFirst lets preempted and waiting requests join in one order, and running requests stay") {
  Random random(43);
  int before_preempted = 0;
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    const Requests<PriorityFirst> one(random);
    std::vector<Slot> expected = one.made.running;
    for (const Slot slot : one.others)
      if (static_cast<int>(expected.size()) < one.made.limits.batch) expected.push_back(slot);
    REQUIRE(one.proposal.claims.size() == expected.size());
    CHECK(one.proposal.leaving.empty());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(one.proposal.claims[i].slot == expected[i]);
      CHECK(one.proposal.claims[i].required == (i < one.made.running.size()));
    }
    for (std::size_t i = 1; i < one.others.size(); ++i)
      before_preempted += one.made.rows[index(one.others[i - 1])].phase == Phase::waiting &&
                          one.made.rows[index(one.others[i])].phase == Phase::preempted;
  }
  CHECK(before_preempted > 100);
}

TEST_CASE("with Preempts, requests join at the cost of running ones of a larger number, and of no others") {
  Random random(44);
  int left = 0, pressed = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const Requests<PriorityPreempts> one(random);
    const auto priority = [&](Slot slot) { return one.key(slot).first; };
    std::vector<Slot> expected = one.made.running;
    if (one.full() && !one.others.empty()) {
      const auto last =
          std::max_element(expected.begin(), expected.end(), [&](Slot a, Slot b) { return one.key(a) < one.key(b); });
      if (priority(*last) > priority(one.others.front())) {
        REQUIRE(one.proposal.leaving == std::vector{*last});
        expected.erase(last);
        ++left;
      }
    }
    CHECK(one.proposal.leaving.size() == one.made.running.size() - expected.size());
    const std::vector<Slot> stay = expected;
    for (const Slot slot : one.others)
      if (static_cast<int>(expected.size()) < one.made.limits.batch) expected.push_back(slot);
    REQUIRE(one.proposal.claims.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Claim& claim = one.proposal.claims[i];
      CHECK(claim.slot == expected[i]);
      const bool costs =
          std::any_of(stay.begin(), stay.end(), [&](Slot slot) { return priority(slot) > priority(claim.slot); });
      CHECK(claim.required == (i < stay.size() || costs));
      pressed += i >= stay.size() && claim.required;
    }
  }
  CHECK(left > 100);
  CHECK(pressed > 100);
}

TEST_CASE("nobody leaves for a request that the budget of tokens would not reach, or that waits for a tier's blocks") {
  HandMade made;
  made.limits.batch = 1;
  made.limits.batch_tokens = Tokens{1};
  const Slot runs = made.decoding(Tokens{10}, Tokens{1}, Tokens{50});
  made.rows[index(runs)].spec.priority = 1;
  const PriorityPreempts policy;
  PriorityPreempts::State state;
  const Slot waits = made.add(Tokens{5}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
  policy.enter(state, waits, made.rows[index(waits)]);
  Proposal proposal;
  policy.propose(made.view(), state, proposal);
  CHECK(proposal.leaving == std::vector{runs}); // its token is free then
  made.rows[index(waits)].waits = true;
  proposal.clear();
  policy.propose(made.view(), state, proposal);
  CHECK(proposal.leaving.empty());
  CHECK(proposal.claims.size() == 1);
  made.rows[index(waits)].waits = false;
  made.limits.batch = 2;
  const Slot prompt = made.add(Tokens{500}, Tokens{5}, Tokens{0}, Tokens{100}, Phase::running);
  made.rows[index(prompt)].spec.priority = 0;
  made.running.insert(made.running.begin(), prompt);
  proposal.clear();
  policy.propose(made.view(), state, proposal);
  CHECK(proposal.leaving.empty()); // the prompt that stays takes the only token
  CHECK(proposal.claims.size() == 2);
}

TEST_CASE("PreemptLeastUrgent chooses the largest priority, and the newest of these") {
  Random random(45);
  for (int round = 0; round < 500; ++round) {
    Requests<PriorityPreempts> one(random);
    std::vector<Claim> claims;
    for (std::size_t i = 0; i < one.made.rows.size(); ++i) claims.push_back({.slot = static_cast<Slot>(i)});
    if (claims.empty()) continue;
    PreemptLeastUrgent::State state;
    const std::size_t chosen = PreemptLeastUrgent{}.choose(one.made.view(), state, claims);
    REQUIRE(chosen < claims.size());
    for (const Claim& claim : claims) CHECK(one.key(claim.slot) <= one.key(claims[chosen].slot));
  }
}
