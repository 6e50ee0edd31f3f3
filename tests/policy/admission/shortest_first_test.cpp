// SPDX-License-Identifier: Apache-2.0
// ShortestFirst: the order of the queue.
#include "sluice/policy/admission/shortest_first.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("ShortestFirst admits the shortest waiting request; running requests stay even for shorter ones") {
  Random random(41);
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    HandMade made;
    made.limits.batch = static_cast<int>(between(random, 1, 8));
    made.limits.batch_tokens = Tokens{100'000};
    ShortestKnownFirst policy;
    ShortestKnownFirst::State state;
    for (std::int64_t i = between(random, 0, made.limits.batch); i > 0; --i)
      made.decoding(Tokens{10}, Tokens{1}, Tokens{between(random, 2, 500)});
    std::vector<Slot> queue;
    for (std::int64_t i = between(random, 0, 12); i > 0; --i) {
      queue.push_back(made.add(Tokens{between(random, 1, 100)}, Tokens{between(random, 1, 20)}, Tokens{0}, Tokens{0},
                               Phase::waiting));
      policy.enter(state, queue.back(), made.rows[index(queue.back())]);
    }
    for (std::size_t i = queue.size(); i-- > 0;) { // some cancel
      if (random.below(4) != 0) continue;
      policy.leave(state, queue[i], made.rows[index(queue[i])]);
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
    }
    Proposal proposal;
    policy.propose(made.view(), state, proposal);
    CHECK(proposal.leaving.empty());
    std::stable_sort(queue.begin(), queue.end(), [&](Slot a, Slot b) {
      return made.rows[index(a)].output(not_a_policy) < made.rows[index(b)].output(not_a_policy);
    });
    std::vector<Slot> expected = made.running;
    for (const Slot slot : queue)
      if (static_cast<int>(expected.size()) < made.limits.batch) expected.push_back(slot);
    REQUIRE(proposal.claims.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(proposal.claims[i].slot == expected[i]);
  }
}
