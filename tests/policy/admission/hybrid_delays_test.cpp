// SPDX-License-Identifier: Apache-2.0
// HybridDelays: the times of a token that is rebuilt or computed again, by a cost model that has them as constants.
#include "sluice/policy/admission/hybrid_choice.hpp"
#include "sluice/policy/admission/request_costs.hpp"
#include "sluice/policy/placement/placement.hpp"

#include "support/hand_made.hpp"
#include "support/plain_estimate.hpp"
#include <doctest/doctest.h>

#include <vector>

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("a decode's work is that of a placement's steady decode one token later") {
  Random random(103);
  for (int round = 0; round < 300; ++round) {
    HandMade made;
    std::vector<Claim> claims;
    for (std::int64_t i = between(random, 0, 9); i > 0; --i)
      claims.push_back({made.decoding(Tokens{between(random, 1, 300)}, Tokens{between(random, 1, 40)}, Tokens{500}),
                        Tokens{1}, Tokens{0}, true});
    const View view = made.view();
    const PlainCost cost;
    const PlacementTask<PlainCost, DeadlinePool, PerLayer> task{view,           claims, claims.size(), LayerBlocks{0},
                                                                LayerBlocks{0}, cost,   Window{1, 1}};
    const Work expected = task.steady_decode(claims.size());
    const Work work = decode_work(view, view.running, Tokens{1});
    CHECK(work.decodes == expected.decodes);
    CHECK(work.samples == expected.samples);
    CHECK(work.decode_context == expected.decode_context);
    CHECK(decode_work(view, view.running).decode_context == expected.decode_context - Tokens{expected.decodes});
  }
}

TEST_CASE("all that wait are delayed by each token's own time") {
  Random random(104);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    HandMade made;
    made.ledger = Ledger{LayerBlocks{between(random, 8, 5000)}, LayerBlocks{0}};
    for (std::int64_t i = between(random, 1, 9); i > 0; --i) made.decoding(Tokens{10}, Tokens{1}, Tokens{50});
    const PlainEstimate costs{.fixed_s = random.uniform(), .token_s = random.uniform(), .rebuilt_s = random.uniform()};
    const View view = made.view();
    const double waiting = static_cast<double>(between(random, 0, 50));
    const HybridDelays delays = HybridDelays::of(view, decode_work(view, view.running), waiting, costs.estimate());
    const auto running = static_cast<double>(view.running.size());
    CHECK(delays.decode_s == doctest::Approx(costs.fixed_s + running * costs.token_s));
    CHECK(delays.rebuilt_s == doctest::Approx(waiting * costs.rebuilt_s));
    CHECK(delays.again_s == doctest::Approx(waiting * costs.token_s));
  }
}
