// SPDX-License-Identifier: Apache-2.0
// FitsFutureMemory: the expected peak against decoding token by token, and which requests join under it.
#include "sluice/policy/admission/future_memory.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// One token per step for every request with tokens left; returns the most blocks held at once.
double decoded_peak(std::vector<FutureClaim> claims) {
  double peak = 0;
  for (;;) {
    double held = 0;
    for (const FutureClaim& claim : claims) held += claim.context;
    peak = std::max(peak, held);
    claims.erase(std::remove_if(claims.begin(), claims.end(), [](const FutureClaim& c) { return c.remaining <= 0; }),
                 claims.end());
    if (claims.empty()) return peak;
    for (FutureClaim& claim : claims) {
      claim.context += 1;
      claim.remaining -= 1;
    }
  }
}

} // namespace

TEST_CASE("FitsFutureMemory admits by arrival the requests expected to fit, and none after the first that does not") {
  Random random(52);
  int refused = 0;
  int joined_some = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    HandMade made;
    made.limits.batch = 12;
    made.limits.batch_tokens = Tokens{100'000};
    const FitsFutureMemory policy{.enough = 5, .first_guess = Tokens{between(random, 10, 80)}};
    FitsFutureMemory::State state;
    // Some have run and ended before: it has observed their lengths.
    for (std::int64_t i = between(random, 0, 12); i > 0; --i) made.lengths.learn(Tokens{between(random, 2, 100)});
    for (std::int64_t i = between(random, 0, 4); i > 0; --i) {
      const Tokens generated{between(random, 1, 30)};
      made.decoding(Tokens{between(random, 1, 60)}, generated, generated + Tokens{between(random, 1, 90)});
    }
    std::vector<Slot> queue;
    for (std::int64_t i = between(random, 1, 6); i > 0; --i) {
      queue.push_back(made.add(Tokens{between(random, 1, 60)}, Tokens{50}, Tokens{0}, Tokens{0}, Phase::waiting));
      policy.enter(state, queue.back(), made.rows[index(queue.back())]);
    }
    made.ledger = Ledger{LayerBlocks{between(random, 8, 40) * made.geometry.layers}, LayerBlocks{0}};
    Proposal proposal;
    policy.propose(made.view(), state, proposal);

    const double capacity = static_cast<double>(made.ledger.device().capacity().count() / made.geometry.layers * 16);
    std::vector<FutureClaim> claims;
    const auto future = [&](Slot slot) {
      const RequestRow& row = made.rows[index(slot)];
      return FutureClaim{static_cast<double>(row.context().count()) + 8, policy.expected_remaining(made.lengths, row)};
    };
    for (const Slot slot : made.running) claims.push_back(future(slot));
    std::size_t expected = made.running.size();
    for (const Slot slot : queue) {
      claims.push_back(future(slot));
      if (claims.size() > 1 && decoded_peak(claims) > capacity) break;
      ++expected;
    }
    REQUIRE(proposal.claims.size() == expected);
    for (std::size_t i = made.running.size(); i < expected; ++i)
      CHECK(proposal.claims[i].slot == queue[i - made.running.size()]);
    refused += expected < made.running.size() + queue.size();
    joined_some += expected > made.running.size();
  }
  CHECK(refused > 200);
  CHECK(joined_some > 200);
}

TEST_CASE("FitsFutureMemory expects the observed lengths that exceed the present one") {
  HandMade made;
  const FitsFutureMemory policy{.enough = 1, .first_guess = Tokens{7}};
  const Slot waits = made.add(Tokens{10}, Tokens{3}, Tokens{0}, Tokens{0}, Phase::waiting);
  const auto expected = [&](const RequestRow& row) { return policy.expected_remaining(made.lengths, row); };
  CHECK(expected(made.rows[index(waits)]) == 7);
  for (int i = 0; i < 60; ++i) made.lengths.learn(Tokens{10});
  CHECK(expected(made.rows[index(waits)]) == 10);
  RequestRow row = made.rows[index(waits)];
  row.generated = Tokens{9};
  CHECK(expected(row) == 1);
  row.generated = Tokens{10}; // longer than all observed lengths
  CHECK(expected(row) == 1);
  for (std::size_t i = 0; i < OutputLengths::window; ++i)
    made.lengths.learn(Tokens{200}); // the short ones are forgotten
  CHECK(expected(made.rows[index(waits)]) == 200);
  CHECK(expected(row) == 190);
}
