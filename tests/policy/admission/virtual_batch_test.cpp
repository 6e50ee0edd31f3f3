// SPDX-License-Identifier: Apache-2.0
// VirtualBatch: requests count by their share of the iterations, whatever the order in which they join.
#include "sluice/policy/admission/virtual_batch.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("a batch is the same whoever joined last, and counts each request's share") {
  Random random(91);
  int tighter = 0;
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    HandMade made;
    std::vector<Claim> claims;
    for (std::int64_t i = between(random, 1, 10); i > 0; --i) {
      const Slot slot = made.decoding(Tokens{between(random, 1, 400)}, Tokens{1}, Tokens{500});
      const double infinite = std::numeric_limits<double>::infinity();
      made.rows[index(slot)].spec.slo.tbt = Seconds{random.below(4) == 0 ? infinite : 0.05 + random.uniform()};
      claims.push_back({slot, Tokens{1}, Tokens{0}, true});
    }
    const View view = made.view();
    const std::span<const Slot> slots = view.running;
    const double least = 0.01 + 0.2 * random.uniform();
    const VirtualBatch whole = VirtualBatch::of(view, slots, least);
    const std::span<const Claim> others = std::span<const Claim>(claims).first(claims.size() - 1);
    const VirtualBatch before = VirtualBatch::of(view, slots.first(others.size()), least);
    const VirtualBatch grown = before.with(view, others, view.row(slots.back()));
    CHECK(grown.tightest == whole.tightest);
    CHECK(grown.places == doctest::Approx(whole.places));
    CHECK(grown.context == doctest::Approx(whole.context));
    tighter += others.size() > 0 && grown.tightest < before.tightest;

    // Counted iteration by iteration: each takes part as often as its TPOT asks for, at least once in 1 / `least`.
    double tightest = std::numeric_limits<double>::infinity();
    for (const Slot slot : slots) tightest = std::min(tightest, view.row(slot).spec.slo.tbt.count());
    double places = 0;
    for (const Slot slot : slots) {
      const double tpot = view.row(slot).spec.slo.tbt.count();
      const double every = std::isinf(tightest) ? 1.0 : std::min(1 / least, tpot / tightest); // iterations
      places += 1 / every;
      CHECK(whole.share(view.row(slot)) == doctest::Approx(1 / every));
    }
    CHECK(whole.places == doctest::Approx(places));
    CHECK(whole.decode().decodes == static_cast<std::int64_t>(std::ceil(whole.places)));
    CHECK(whole.decode().decodes <= static_cast<std::int64_t>(slots.size()));
  }
  CHECK(tighter > 100);
}

TEST_CASE("a request whose TPOT is 0 takes part in every iteration, and the others in the least share of them") {
  HandMade made;
  for (const double tbt : {0.0, 0.0, 0.1, std::numeric_limits<double>::infinity()})
    made.rows[index(made.decoding(Tokens{10}, Tokens{1}, Tokens{50}))].spec.slo.tbt = Seconds{tbt};
  const View view = made.view();
  const VirtualBatch batch = VirtualBatch::of(view, view.running, 0.125);
  CHECK(batch.share(made.rows[0]) == 1);
  CHECK(batch.share(made.rows[2]) == 0.125);
  CHECK(batch.share(made.rows[3]) == 0.125);
  CHECK(batch.places == 2.25);
}
