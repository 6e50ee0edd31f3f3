// SPDX-License-Identifier: Apache-2.0
// Credits: how often requests take part, and that a discarded proposal costs nothing.
#include "sluice/policy/admission/virtual_batch.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("in any stretch of iterations a request takes part in its share of them, to within one iteration") {
  Random random(95);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    Credits credits, undisturbed;
    std::vector<double> shares;
    for (std::int64_t i = between(random, 1, 6); i > 0; --i) shares.push_back(0.05 + 0.95 * random.uniform());
    std::vector<std::vector<int>> took(shares.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
      credits.start(Slot{static_cast<std::uint32_t>(i)});
      undisturbed.start(Slot{static_cast<std::uint32_t>(i)});
    }
    for (std::int64_t step = 0; step < 200; ++step) {
      undisturbed.begin(step);
      for (std::int64_t again = between(random, 0, 2); again >= 0; --again) { // the first ones are discarded
        credits.begin(step);
        for (std::size_t i = 0; i < shares.size(); ++i) {
          const bool takes = credits.takes_part(Slot{static_cast<std::uint32_t>(i)}, shares[i]);
          if (again > 0) continue;
          took[i].push_back(takes);
          CHECK(takes == undisturbed.takes_part(Slot{static_cast<std::uint32_t>(i)}, shares[i]));
        }
      }
    }
    for (std::size_t i = 0; i < shares.size(); ++i)
      for (int from = 0; from < 200; from += 37) {
        int count = 0;
        for (int step = from; step < 200; ++step) {
          count += took[i][static_cast<std::size_t>(step)];
          CHECK(std::abs(count - shares[i] * (step - from + 1)) < 1 + 1e-6);
        }
      }
  }
}

TEST_CASE("a slot's next request starts without credit") {
  Credits credits;
  const Slot slot{3};
  credits.start(slot);
  credits.begin(0);
  CHECK_FALSE(credits.takes_part(slot, 0.75));
  credits.begin(1);
  CHECK(credits.takes_part(slot, 0.75));
  credits.start(slot);
  credits.begin(2);
  CHECK_FALSE(credits.takes_part(slot, 0.75));
}
