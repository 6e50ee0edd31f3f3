// SPDX-License-Identifier: Apache-2.0
// Pressing: who presses and who pays, against the rules written out over all pairs.
#include "sluice/policy/admission/pressing.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr double ttft_s = 5, tbt_s = 0.25;

/// Running and paused requests with tokens at any time, some of them late.
HandMade any_requests(Random& random) {
  HandMade made;
  const auto started = [&](Slot slot) {
    RequestRow& row = made.rows[index(slot)];
    row.spec.arrival = Seconds{60 + 39 * random.uniform()};
    row.spec.slo = {.ttft = Seconds{ttft_s}, .tbt = Seconds{tbt_s}};
    row.first_token = row.spec.arrival + Seconds{(100 - row.spec.arrival.count()) * 0.4 * random.uniform()};
    if (random.below(3) == 0) row.delivered = Tokens{between(random, 0, row.generated.count())};
  };
  for (std::int64_t i = between(random, 0, 4); i > 0; --i)
    started(made.decoding(Tokens{between(random, 1, 300)}, Tokens{between(random, 1, 300)}, Tokens{900}));
  for (std::int64_t i = between(random, 0, 4); i > 0; --i) {
    const std::int64_t generated = between(random, 0, 200);
    const Slot slot =
        made.add(Tokens{between(random, 1, 300)}, Tokens{900}, Tokens{generated}, Tokens{generated}, Phase::preempted);
    started(slot);
    made.rows[index(slot)].may_return = random.below(5) > 0;
    made.rows[index(slot)].waits = random.below(5) == 0;
    made.rows[index(slot)].preempted_since = Seconds{60 + 40 * random.uniform()};
    made.preempted.push_back(slot);
  }
  return made;
}

/// Seconds that a request's tokens are ahead of one TBT each since its first.
double ahead(const HandMade& made, const RequestRow& row) {
  return row.first_token.count() + static_cast<double>(row.generated.count()) * tbt_s - made.now.count();
}
bool keeps_slo(const HandMade& made, const RequestRow& row) {
  return row.first_token.count() - row.spec.arrival.count() <= ttft_s && ahead(made, row) >= 0;
}

} // namespace

TEST_CASE("the request with the least slack presses, and without any the one paused for longest") {
  Random random(11);
  int savable = 0, longest = 0, new_one = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    HandMade made = any_requests(random);
    made.decoding(Tokens{1}, Tokens{3000}, Tokens{9000}); // it is ahead of all, and pays
    made.rows.back().first_token = made.rows.back().spec.arrival = Seconds{99};
    made.rows.back().spec.slo = {.ttft = Seconds{ttft_s}, .tbt = Seconds{tbt_s}};
    for (RequestRow& row : made.rows) row.delivered = row.generated;
    for (const Slot slot : made.running) made.rows[index(slot)].spec.slo.ttft = Seconds{1e6}; // nobody else is late
    const Slot waits = made.add(Tokens{5}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
    made.rows[index(waits)].spec.slo = {.ttft = Seconds{ttft_s}, .tbt = Seconds{tbt_s}};
    const bool with_newcomer = random.below(2) == 0;
    const double slack = ttft_s * random.uniform();
    const auto wish = with_newcomer ? std::optional<Pressing::Wish>{{waits, slack}} : std::nullopt;

    std::optional<Slot> expected;
    if (with_newcomer) expected = waits;
    double least = expected ? slack : ttft_s;
    for (const Slot slot : made.preempted) {
      const RequestRow& row = made.rows[index(slot)];
      if (row.may_return && !row.waits && row.generated.count() > 0 && keeps_slo(made, row) &&
          ahead(made, row) < least) {
        least = ahead(made, row);
        expected = slot;
      }
    }
    const bool saves = expected && *expected != waits;
    double since = made.now.count() - 4 * ttft_s;
    if (!expected)
      for (const Slot slot : made.preempted) {
        const RequestRow& row = made.rows[index(slot)];
        if (!row.may_return || row.waits || row.generated.count() == 0 || row.preempted_since.count() > since) continue;
        since = row.preempted_since.count();
        expected = slot;
      }
    const auto choice = Pressing{}.choose(made.view(), wish);
    REQUIRE(choice.has_value() == expected.has_value());
    if (!choice) continue;
    CHECK(choice->comes == *expected);
    ++(saves ? savable : *expected == waits ? new_one : longest);
  }
  CHECK(savable > 100);
  CHECK(longest > 100);
  CHECK(new_one > 100);
}

TEST_CASE("only a request that has lost its SLO or is ahead pays, and the one whose pause costs least") {
  Random random(12);
  int paid = 0, spared = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    HandMade made = any_requests(random);
    const Slot waits = made.add(Tokens{between(random, 1, 100)}, Tokens{5}, Tokens{0}, Tokens{0}, Phase::waiting);
    made.rows[index(waits)].spec.slo = {.ttft = Seconds{ttft_s}, .tbt = Seconds{tbt_s}};
    made.preempted.clear();
    const auto choice = Pressing{}.choose(made.view(), Pressing::Wish{waits, 1});
    // By hand: lost ones first, then deposits, then the distance from arrival + TTFT + a TBT for each token.
    const RequestRow* pays = nullptr;
    const auto due = [](const RequestRow& row) {
      return row.spec.arrival.count() + ttft_s + static_cast<double>(row.generated.count()) * tbt_s;
    };
    const auto costs_less = [&](const RequestRow& a, const RequestRow& b) {
      const bool lost = due(a) < 100, other = due(b) < 100;
      if (lost != other) return lost;
      const std::int64_t deposit = (a.generated - a.delivered).count(), its = (b.generated - b.delivered).count();
      return deposit != its ? deposit > its : due(a) > due(b);
    };
    for (const Slot slot : made.running) {
      const RequestRow& row = made.rows[index(slot)];
      if (pays == nullptr || costs_less(row, *pays)) pays = &row;
    }
    const bool bears = pays != nullptr && (due(*pays) < 100 || ahead(made, *pays) > ttft_s);
    REQUIRE(choice.has_value() == bears);
    ++(bears ? paid : spared);
    if (bears) CHECK(made.rows[index(choice->pays)].id == pays->id);
  }
  CHECK(paid > 300);
  CHECK(spared > 100);
}

TEST_CASE("requests without a TTFT SLO make no paused request press") {
  HandMade made;
  made.decoding(Tokens{1000}, Tokens{1000}, Tokens{2000});
  const Slot rests = made.add(Tokens{10}, Tokens{900}, Tokens{500}, Tokens{500}, Phase::preempted);
  made.preempted.push_back(rests);
  made.rows[index(rests)].may_return = true;
  made.rows[index(rests)].first_token = made.now;
  for (RequestRow& row : made.rows)
    row.spec.slo = {.ttft = Seconds{std::numeric_limits<double>::infinity()}, .tbt = Seconds{tbt_s}};
  CHECK_FALSE(Pressing{}.choose(made.view(), std::nullopt).has_value());
}
