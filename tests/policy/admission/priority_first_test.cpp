// SPDX-License-Identifier: Apache-2.0
#include "sluice/policy/admission/priority_first.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

static_assert(!PriorityFirst::knows_lengths && PriorityFirst::heeds_priority);

TEST_CASE("PriorityFirst admits the waiting request with the lowest number, ties by arrival; running requests stay") {
  Random random(43);
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    HandMade made;
    made.limits.batch = static_cast<int>(between(random, 1, 8));
    made.limits.batch_tokens = Tokens{100'000};
    const PriorityFirst policy;
    PriorityFirst::State state;
    for (std::int64_t i = between(random, 0, made.limits.batch); i > 0; --i)
      made.decoding(Tokens{10}, Tokens{1}, Tokens{between(random, 2, 500)});
    std::vector<Slot> queue;
    for (std::int64_t i = between(random, 0, 12); i > 0; --i) {
      const Slot slot = made.add(Tokens{between(random, 1, 100)}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
      made.rows[index(slot)].spec.priority = static_cast<std::int32_t>(between(random, -2, 2));
      policy.enter(state, slot, made.rows[index(slot)]);
      queue.push_back(slot);
    }
    Proposal proposal;
    policy.propose(made.view(), state, proposal);
    std::stable_sort(queue.begin(), queue.end(), [&](Slot a, Slot b) {
      return made.rows[index(a)].spec.priority < made.rows[index(b)].spec.priority;
    });
    std::vector<Slot> expected = made.running;
    for (const Slot slot : queue)
      if (static_cast<int>(expected.size()) < made.limits.batch) expected.push_back(slot);
    REQUIRE(proposal.claims.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(proposal.claims[i].slot == expected[i]);
  }
}
