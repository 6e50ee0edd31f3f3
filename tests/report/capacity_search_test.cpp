// SPDX-License-Identifier: Apache-2.0
// The search for a capacity, with attainments of known capacity: finds it to one step in few probes, and reports
// further crossings.
#include "sluice/core/random.hpp"

#include "../examples/tools/compare/capacity_pairs.hpp"
#include "../examples/tools/compare/capacity_search.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

using namespace sluice;
using compared::CapacitySearch;
using compared::Found;
using compared::Probe;
using compared::RateLattice;
using compared::search_capacity;

namespace {

/// Counts the probes.
template <class Share>
struct Asked {
  explicit Asked(Share what) : share(std::move(what)) {}

  Share share;
  int count = 0;
  Expected<Probe> operator()(int step) {
    ++count;
    return Probe{.attained = share(step)};
  }
};

} // namespace

TEST_CASE("a falling attainment's capacity is found to one step, wherever it is") {
  const RateLattice lattice;
  Random random{7};
  for (int round = 0; round < 2'000; ++round) {
    const auto last = static_cast<int>(random.below(2 * 192 + 41)) - 192 - 20; // beyond either end too
    const double share = 0.5 + 0.5 * static_cast<double>(random.below(100)) / 100;
    Asked asked{[&](int step) { return step <= last ? share : share - 1e-9; }};
    const Expected<CapacitySearch> search = search_capacity(share, lattice, asked);
    REQUIRE(search.has_value());
    CHECK(search->monotone());
    CHECK(asked.count == static_cast<int>(search->probes.size())); // no rate twice
    CHECK(asked.count <= 13 + 5);
    if (last < -192) {
      CHECK(search->found == Found::below);
      CHECK(search->step == -192);
    } else if (last >= 192) {
      CHECK(search->found == Found::above);
      CHECK(search->step == 192);
    } else {
      CHECK(search->found == Found::between);
      CHECK(search->step == last);
      CHECK(search->at(last).meets(share));
      CHECK_FALSE(search->at(last + 1).meets(share));
    }
    for (std::size_t i = 1; i < search->probes.size(); ++i) CHECK(search->probes[i - 1].step < search->probes[i].step);
  }
}

TEST_CASE("the highest of several crossings is found, wherever the search starts") {
  // Good and bad ranges alternate with every length: the result is the highest octave that both searches see.
  Random random{11};
  int compared = 0;
  for (int round = 0; round < 2'000; ++round) {
    std::vector<int> turns;
    for (int at = -400; at < 400; at += 1 + static_cast<int>(random.below(90))) turns.push_back(at);
    const auto share = [&](int step) {
      const auto passed = std::count_if(turns.begin(), turns.end(), [step](int turn) { return turn <= step; });
      return step <= 100 && passed % 2 == 1 ? 1.0 : 0.0;
    };
    const RateLattice own, lower{.around = -2 - static_cast<int>(random.below(2))};
    const auto ask = [&](int step) -> Expected<Probe> { return Probe{.attained = share(step)}; };
    const Expected<CapacitySearch> a = search_capacity(0.9, own, ask), b = search_capacity(0.9, lower, ask);
    REQUIRE(a.has_value());
    REQUIRE(b.has_value());
    for (int octave = own.last(); octave > a->step; octave -= own.steps) CHECK(share(octave) == 0);
    if (a->found != Found::between || a->step >= lower.last() || a->step < own.first()) continue;
    if (b->found != Found::between) continue;
    ++compared;
    CHECK(a->step == b->step);
    CHECK(share(a->step) == 1);
    CHECK(share(a->step + 1) == 0);
  }
  CHECK(compared > 1'000);
}

TEST_CASE("a lower rate within two octaves that misses the share is reported") {
  const RateLattice lattice;
  // Met to step 10, and again an octave higher: the higher is the capacity, and the gap is reported.
  Asked again{[](int step) { return step <= 10 || (step > 50 && step < 80) ? 1.0 : 0.0; }};
  const Expected<CapacitySearch> search = search_capacity(0.9, lattice, again);
  REQUIRE(search.has_value());
  CHECK(search->found == Found::between);
  CHECK(search->step == 79);
  CHECK(search->against == std::vector<int>{32});
  // Not met at low rates, met in the middle.
  Asked hole{[](int step) { return step < -20 || step > 40 ? 0.0 : 1.0; }};
  const Expected<CapacitySearch> below = search_capacity(0.9, lattice, hole);
  REQUIRE(below.has_value());
  CHECK(below->step == 40);
  CHECK_FALSE(below->monotone());
}

TEST_CASE("a livelock and an absent attainment miss the share, and an error ends the search") {
  const RateLattice lattice;
  const auto stuck = search_capacity(0.9, lattice, [](int) -> Expected<Probe> { return Probe{0, 1.0, true}; });
  CHECK(stuck->found == Found::below);
  const auto absent = search_capacity(
      0.9, lattice, [](int) -> Expected<Probe> { return Probe{.attained = std::numeric_limits<double>::quiet_NaN()}; });
  CHECK(absent->found == Found::below);
  const auto failed = search_capacity(0.9, lattice, [](int step) -> Expected<Probe> {
    if (step == 160) return Error{ErrorCode::bad_input, "here", "it broke", ""};
    return Probe{.attained = 0};
  });
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().what == "it broke");
}

TEST_CASE("the lattice doubles in this many steps") {
  const RateLattice lattice;
  CHECK(lattice.rate(0) == 1);
  CHECK(lattice.rate(32) == 2);
  CHECK(lattice.rate(-192) == 1.0 / 64);
  CHECK(lattice.rate(1) == doctest::Approx(1.0219).epsilon(1e-4));
  CHECK(RateLattice::near(1).around == 0);
  CHECK(RateLattice::near(0.03125).first() == -11 * 32);
  CHECK(RateLattice::near(0.3).around == -2); // its nearest octave, so that the rates tried are the same
}

TEST_CASE("capacities have a geometric mean, with a factor as its interval") {
  const std::vector<double> logs{std::log2(0.557), std::log2(0.245), std::log2(0.076)};
  const Interval of = compared::geometric_interval(logs, 3, false);
  CHECK(of.mean == doctest::Approx(std::cbrt(0.557 * 0.245 * 0.076)));
  CHECK(of.least > 0);
  CHECK(of.most / of.mean == doctest::Approx(of.mean / of.least));
  CHECK(compared::factor_of(of) == doctest::Approx(of.most / of.mean));
  // One seed beyond an end leaves no mean, but a median.
  const std::vector<double> with{1, compared::lies_above, 2, compared::lies_below, 1.5};
  CHECK(std::isnan(compared::geometric_interval(with, 3, false).mean));
  CHECK(compared::median_of(with) == 1.5);
  CHECK(compared::median_of({1, compared::lies_above}) == 1);
  CHECK(compared::median_of({compared::lies_above, 2, compared::lies_above}) == compared::lies_above);
}

TEST_CASE("pairs of capacities give ratios, and are only counted if one of them is beyond an end") {
  const std::vector<double> a{1, 2, 3, 4, 5.5, 6, 7, 8}, b{0, 1.1, 1.9, 3, 4.5, 5, 6, 7};
  const compared::CapacityPairs all = compared::capacity_pairs(a, b, false);
  CHECK(all.ratio.mean == doctest::Approx(std::exp2((1 + 0.9 + 1.1 + 1 + 1 + 1 + 1 + 1) / 8)));
  CHECK(all.wins == 8);
  CHECK_FALSE(all.tie());
  CHECK(all.verdict() == "better, wins 8 of 8");
  const double up = compared::lies_above, down = compared::lies_below;
  // Both beyond one end: which one is larger is unknown.
  const compared::CapacityPairs some = compared::capacity_pairs(std::vector<double>{up, up, 1, 2, 3, 4, 5, 6},
                                                                std::vector<double>{up, 9, down, 1, 1, 1, 1, 1}, false);
  CHECK(some.ordered == 7);
  CHECK(some.wins == 7);
  CHECK(std::isnan(some.ratio.mean));
  CHECK(some.verdict() == "better, wins 7 of 7 (1 cannot be ordered)");
  const compared::CapacityPairs few =
      compared::capacity_pairs(std::vector<double>{up, 1, 1}, std::vector<double>{1, 0, 0}, false);
  CHECK(few.verdict() == "tie, wins 3 of 3"); // three coins show the same side in a quarter of all cases
  CHECK(compared::capacity_pairs(std::vector<double>{up}, std::vector<double>{1}, false).verdict() == "wins 1 of 1");
}

TEST_CASE("capacities have no interval of fewer seeds than were measured, nor of windows; the signs decide then") {
  const std::vector<double> a{1, 2.5, 3, 4, 5, 6, 7, 8.5}, b{0, 1, 2, 3, 4, 5, 6, 7};
  for (std::size_t count = 2; count <= a.size(); ++count)
    for (const bool windows : {false, true}) {
      CAPTURE(count);
      const std::span<const double> some = std::span(a).first(count), others = std::span(b).first(count);
      for (const std::size_t fewest : {2UL, 3UL, 8UL, 16UL}) {
        const Interval of = compared::geometric_interval(some, fewest, windows);
        CHECK(std::isfinite(of.mean));
        CHECK(of.known() == (!windows && count >= fewest));
      }
      const compared::CapacityPairs pairs = compared::capacity_pairs(some, others, windows);
      CHECK(std::isfinite(pairs.ratio.mean));
      CHECK(pairs.ratio.known() == (!windows && count >= compared::fewest_for_ratio));
      if (!pairs.ratio.known()) CHECK(pairs.tie() == (count < 6)); // six coins show one side in 1 of 32 cases
    }
}

TEST_CASE("a ratio that is 1 in half of the seeds has no interval, and the signs decide") {
  const std::vector<double> base(12, 0.0);
  std::vector<double> row{1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0};
  CHECK(std::isnan(compared::capacity_pairs(row, base, false).ratio.least));
  CHECK(compared::capacity_pairs(row, base, false).tie()); // 5 to 0 can be chance
  row[5] = 1;
  CHECK(std::isnan(compared::capacity_pairs(row, base, false).ratio.least));
  CHECK(compared::capacity_pairs(row, base, false).verdict() == "better, wins 6 of 12");
  row[6] = 1;
  CHECK_FALSE(std::isnan(compared::capacity_pairs(row, base, false).ratio.least));
}

TEST_CASE("the sign test sums both tails of the binomial distribution") {
  CHECK(sluice::sign_test(0, 5) == doctest::Approx(2.0 / 32));
  CHECK(sluice::sign_test(1, 8) == doctest::Approx(2.0 * 9 / 256));
  CHECK(sluice::sign_test(4, 8) == 1);
  CHECK(sluice::sign_test(0, 0) == 1);
}

TEST_CASE("the sign test holds for thousands of pairs, whose single outcomes are below the smallest double") {
  const auto normal = [](double few, double count) { // its limit, with the correction for continuity
    return std::erfc((count / 2 - few - 0.5) / std::sqrt(count / 2));
  };
  for (const std::size_t count : {1'074U, 1'075U, 2'000U, 100'000U})
    for (const double deviations : {0.1, 1.0, 2.0, 3.0}) {
      CAPTURE(count);
      CAPTURE(deviations);
      const auto n = static_cast<double>(count);
      const auto few = static_cast<std::size_t>(n / 2 - deviations * std::sqrt(n) / 2);
      CHECK(sluice::sign_test(few, count) == doctest::Approx(normal(static_cast<double>(few), n)).epsilon(0.02));
    }
  CHECK(sluice::sign_test(1'000, 2'000) == 1);
  CHECK(sluice::sign_test(0, 2'000) < 1e-300);
}
