// SPDX-License-Identifier: Apache-2.0
// ShortestFirst: the order of the queue, and that a predictor's ranks agree as often as its tau says.
#include "sluice/policy/admission/shortest_first.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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
    std::stable_sort(queue.begin(), queue.end(),
                     [&](Slot a, Slot b) { return made.rows[index(a)].spec.output < made.rows[index(b)].spec.output; });
    std::vector<Slot> expected = made.running;
    for (const Slot slot : queue)
      if (static_cast<int>(expected.size()) < made.limits.batch) expected.push_back(slot);
    REQUIRE(proposal.claims.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(proposal.claims[i].slot == expected[i]);
  }
}

TEST_CASE("RankedLength agrees with the true order as often as its tau implies") {
  for (const double tau : {0.0, 0.3, 0.5, 0.8}) {
    CAPTURE(tau);
    Random random(42);
    const RankedLength predict{.kendall_tau = tau, .seed = 7};
    RankedLength::State state;
    std::vector<double> truth, predicted;
    for (std::uint32_t i = 0; i < 2200; ++i) {
      RequestRow row;
      row.id = RequestId{i};
      // Log-normal with a tail, as outputs are: the product of four uniform numbers.
      double length = 1;
      for (int k = 0; k < 4; ++k) length *= 0.05 + random.uniform();
      row.spec.output = Tokens{1 + static_cast<std::int64_t>(20'000 * length)};
      const double guess = predict(state, row);
      if (i < 200) continue; // it must observe some lengths first
      truth.push_back(static_cast<double>(row.spec.output.count()));
      predicted.push_back(guess);
    }
    double agree = 0;
    double pairs = 0;
    for (std::size_t i = 0; i < truth.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        if (truth[i] == truth[j]) continue;
        ++pairs;
        agree += (truth[i] < truth[j]) == (predicted[i] < predicted[j]) ? 1 : -1;
      }
    CHECK(agree / pairs == doctest::Approx(tau).epsilon(0.05));
  }
}

TEST_CASE("RankedLength: a tau of 1 is the oracle") {
  Random random(43);
  const RankedLength predict{.kendall_tau = 1};
  RankedLength::State state;
  RequestRow row;
  std::vector<std::pair<double, double>> seen;
  for (std::uint32_t i = 0; i < 500; ++i) {
    row.id = RequestId{i};
    row.spec.output = Tokens{between(random, 1, 4000)};
    const double guess = predict(state, row);
    if (i > 400) seen.emplace_back(static_cast<double>(row.spec.output.count()), guess);
  }
  // The scale moves a little with every request: clearly shorter must be clearly less.
  for (const auto& [a, guess_a] : seen)
    for (const auto& [b, guess_b] : seen)
      if (1.2 * a < b) CHECK(guess_a < guess_b);
}
