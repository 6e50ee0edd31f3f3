// SPDX-License-Identifier: Apache-2.0
// Means, intervals and paired differences: properties that hold for any values.
#include "sluice/core/random.hpp"
#include "sluice/report/statistics/paired.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace sluice;

namespace {

const double none_there = std::numeric_limits<double>::quiet_NaN();

std::vector<double> drawn(Random& random, std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(random.uniform());
  return values;
}

} // namespace

TEST_CASE("a mean's interval equals one computed by hand") {
  const std::vector<double> values{2, 4, 4, 6, 9}; // mean 5, squares 9 + 1 + 1 + 1 + 16 = 28, error sqrt(28 / 4 / 5)
  const Interval of = mean_interval(values);
  CHECK(of.mean == 5);
  CHECK(of.count == 5);
  CHECK(of.half_width() == doctest::Approx(2.7764451 * std::sqrt(28.0 / 20)));
  CHECK(of.most - of.mean == doctest::Approx(of.mean - of.least));
  CHECK(of.contains(5));
  CHECK(!of.contains(0));
}

TEST_CASE("missing values are ignored, and one value has no interval") {
  CHECK(std::isnan(mean_interval({}).mean));
  CHECK(mean_interval({}).count == 0);
  const std::vector<double> one{3}, two{1, none_there, 3}, none{none_there, none_there};
  CHECK(mean_interval(one).mean == 3);
  CHECK(!mean_interval(one).known());
  CHECK(mean_interval(two).count == 2);
  CHECK(mean_interval(two).mean == 2);
  CHECK(mean_interval(two).half_width() == doctest::Approx(12.7062)); // one degree of freedom, an error of 1
  CHECK(std::isnan(mean_interval(none).mean));
  const Paired single = paired(one, std::vector<double>{1});
  CHECK(single.difference.mean == 2);
  CHECK(!single.judged());
  CHECK(!single.tie()); // one pair shows nothing, not even equality
}

TEST_CASE("pairs: a difference that is the same for every seed is no tie, however the seeds differ") {
  Random random{3};
  for (const std::size_t count : std::vector<std::size_t>{2, 5, 8, 20}) {
    const std::vector<double> a = drawn(random, count);
    std::vector<double> b = a;
    for (double& value : b) value -= 0.25; // exact
    const Paired of = paired(a, b);
    CHECK(of.difference.mean == doctest::Approx(0.25));
    CHECK(of.difference.half_width() < 1e-12);
    CHECK(!of.tie());
    CHECK(of.wins == count);
    CHECK(of.losses == 0);
    const Paired alike = paired(a, a);
    CHECK(alike.tie());
    CHECK(alike.wins + alike.losses == 0);
    CHECK(alike.pairs() == count);
  }
}

TEST_CASE("pairs: negating, shifting or scaling the values does the same to the interval") {
  Random random{7};
  for (int trial = 0; trial < 40; ++trial) {
    const std::size_t count = 2 + random.below(14);
    const std::vector<double> a = drawn(random, count), b = drawn(random, count);
    const Paired forth = paired(a, b), back = paired(b, a);
    CHECK(forth.wins == back.losses);
    CHECK(forth.losses == back.wins);
    CHECK(forth.difference.mean == doctest::Approx(-back.difference.mean));
    CHECK(forth.tie() == back.tie());
    std::vector<double> higher = a, wider_a = a, wider_b = b;
    for (double& value : higher) value += 1;
    for (double& value : wider_a) value *= 8;
    for (double& value : wider_b) value *= 8;
    const Interval shifted = paired(higher, b).difference, scaled = paired(wider_a, wider_b).difference;
    CHECK(shifted.least == doctest::Approx(forth.difference.least + 1));
    CHECK(shifted.most == doctest::Approx(forth.difference.most + 1));
    CHECK(scaled.least == doctest::Approx(8 * forth.difference.least));
    CHECK(paired(a, b).difference == forth.difference); // no state: equal pairs, equal intervals
    CHECK(forth.difference.contains(forth.difference.mean));
  }
}

TEST_CASE("pairs: a NaN on either side is ignored, and few pairs get Student's t") {
  const std::vector<double> a{1, none_there, 3, 4, 6, 5, 9}, b{0, 1, none_there, 2, 2, 4, 3};
  const Paired of = paired(a, b);
  const std::vector<double> left_a{1, 4, 6, 5, 9}, left_b{0, 2, 2, 4, 3};
  CHECK(of.pairs() == 5);
  CHECK(of.wins == 5);
  CHECK(of.difference == paired(left_a, left_b).difference);
  Random random{5};
  for (std::size_t count = 2; count <= 12; ++count) {
    const std::vector<double> values = drawn(random, count), zeros(count, 0.0);
    const Interval bootstrapped = paired(values, zeros).difference, both = mean_interval(values);
    CHECK((bootstrapped == both) == (count < 8));
    const double t = student_t_quantile(usual_confidence, static_cast<std::int64_t>(count) - 1);
    const double error = detail::mean_error(count, [&](std::size_t i) { return values[i]; }).error;
    CHECK(both.half_width() >= t * error * (1 - 1e-12)); // of eight or more the wider end of both
  }
}

TEST_CASE("pairs: a difference that is rounding is none") {
  Random random(12);
  for (const std::size_t count : {4U, 8U, 20U}) {
    const std::vector<double> values = drawn(random, count);
    std::vector<double> rounded = values, other = values;
    for (double& value : rounded) value *= 1 + 1e-15;
    for (double& value : other) value *= 1 + 1e-6;
    const Paired same = paired(rounded, values), differs = paired(other, values);
    CHECK((same.wins == 0 && same.losses == 0 && same.difference.mean == 0));
    CHECK((same.tie() && by_signs(same).tie()));
    CHECK((differs.wins == count && !differs.tie()));
  }
  // Infinities are not rounded to anything.
  const double never = std::numeric_limits<double>::infinity();
  const Paired ends = paired(std::vector{never, never, 1.0, -never}, std::vector{never, 1.0, never, never});
  CHECK((ends.wins == 1 && ends.losses == 2));
}

TEST_CASE("the limits equal the studentized bootstrap's, exhaustively over all resamples of five values") {
  // A bootstrap draws from all 5^5 resamples with equal weight.
  const std::vector<double> values{0.1, 0.4, 0.35, 0.9, 0.2};
  const detail::MeanError of = detail::mean_error(5, [&](std::size_t i) { return values[i]; });
  std::vector<double> all;
  for (int code = 0; code < 3125; ++code) {
    std::size_t at[5];
    for (int i = 0, rest = code; i < 5; ++i, rest /= 5) at[i] = static_cast<std::size_t>(rest % 5);
    const detail::MeanError again = detail::mean_error(5, [&](std::size_t i) { return values[at[i]]; });
    if (again.error > 1e-12) all.push_back((again.mean - of.mean) / again.error);
  }
  std::sort(all.begin(), all.end());
  const auto share_below = [&](double t) {
    return static_cast<double>(std::lower_bound(all.begin(), all.end(), t) - all.begin()) /
           static_cast<double>(all.size());
  };
  const Interval enumerated = detail::bootstrap_t(values, {}).interval;
  CHECK(share_below((of.mean - enumerated.least) / of.error) == doctest::Approx(0.975).epsilon(0.006));
  CHECK(share_below((of.mean - enumerated.most) / of.error) == doctest::Approx(0.025).epsilon(0.25));
}

TEST_CASE("the enumerated bootstrap is the limit of the drawn one") {
  Random random{11};
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    std::vector<double> a = drawn(random, 8), none(8, 0.0);
    for (double& value : a) value = value * value - 0.2; // skewed
    const Paired enumerated = paired(a, none);
    const Paired many = paired(a, none, {.resamples = 1'000'000, .seed = 5});
    // More resamples than exist are enumerated, too: only fewer are drawn.
    CHECK(many.difference == enumerated.difference);
    const detail::MeanError of = detail::mean_error(8, [&](std::size_t i) { return a[i]; });
    std::vector<double> errors;
    while (errors.size() < 1'000'000) {
      std::vector<double> again(8);
      for (double& value : again) value = a[random.below(8)];
      const detail::MeanError one = detail::mean_error(8, [&](std::size_t i) { return again[i]; });
      if (one.error > 1e-9) errors.push_back((one.mean - of.mean) / one.error);
    }
    std::sort(errors.begin(), errors.end());
    const auto share_below = [&](double limit) { // of the draws: the quantile that the limit is
      const double t = (of.mean - limit) / of.error;
      return static_cast<double>(std::lower_bound(errors.begin(), errors.end(), t) - errors.begin()) / 1e6;
    };
    CHECK(share_below(enumerated.difference.least) == doctest::Approx(0.975).epsilon(0.005));
    CHECK(share_below(enumerated.difference.most) == doctest::Approx(0.025).epsilon(0.1));
  }
}

TEST_CASE("every resample is enumerated once, with the share of draws that give it") {
  for (const std::size_t n : std::vector<std::size_t>{1, 2, 3, 5, 8}) {
    CAPTURE(n);
    std::size_t count = 0;
    double total = 0, factorial = 1;
    for (std::size_t k = 2; k <= n; ++k) factorial *= static_cast<double>(k);
    std::vector<std::vector<std::uint32_t>> seen;
    detail::each_resample(n, [&](const std::vector<std::uint32_t>& counts, double weight) {
      ++count;
      total += weight * factorial;
      seen.push_back(counts);
    });
    CHECK(count == detail::resamples_of(n, 1'000'000));
    CHECK(total == doctest::Approx(std::pow(static_cast<double>(n), static_cast<double>(n))));
    std::sort(seen.begin(), seen.end());
    CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  }
  CHECK(detail::resamples_of(8, 10'000) == 6435);
  CHECK(detail::resamples_of(9, 10'000) == 10'000); // 24,310
}

TEST_CASE("the probability agrees with the interval: below 1 - confidence exactly where 0 is outside") {
  Random random{12};
  int outside = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const std::size_t count = round % 2 == 0 ? 8 : 5;
    std::vector<double> a = drawn(random, count);
    for (double& value : a) value -= 0.3;
    const Paired of = paired(a, std::vector<double>(count, 0.0));
    if (std::abs(of.p - 0.05) < 1e-3) continue; // one atom of the distribution decides
    CHECK((of.p < 0.05) == !of.tie());
    outside += of.tie() ? 0 : 1;
  }
  CHECK(outside > 0);
  CHECK(outside < 200);
}

TEST_CASE("signs alone decide by how many pairs agree, and leave open what the mean contradicts") {
  const auto signs = [](std::vector<double> a) { return by_signs(paired(a, std::vector<double>(a.size(), 0.0))); };
  const Paired eight = signs({.001, .002, .001, .003, .001, .002, .001, .9});
  CHECK_FALSE(eight.difference.known());
  CHECK(eight.difference.mean == doctest::Approx(0.911 / 8));
  CHECK(eight.p == doctest::Approx(2.0 / 256));
  CHECK((eight.judged() && !eight.tie() && eight.first_is_larger()));
  CHECK(signs({1, 1, 1, 1, 1}).tie());                // 1 of 16 by chance
  CHECK_FALSE(signs({-1, -1, -1, -1, -1, -1}).tie()); // 1 of 32
  CHECK(signs({-1, 1, 1, 1, 1, 1, 1, 1}).tie());      // 7 of 8 or more: 9 of 128
  CHECK_FALSE(signs({0, 0, 1, 2, 3, 4, 5, 6}).tie());
  CHECK(signs({0, 0, 0, 0, 0, 0}).tie());
  const Paired against = signs({1, 1, 1, 1, 1, 1, 1, 1, -20}); // wins 8 of 9, and loses in the mean
  CHECK(against.wins == 8);
  CHECK(against.tie());
  CHECK_FALSE(signs({1}).judged());
  const Paired cancel = signs({.1, .1, .1, .1, .1, .1, .1, -.1, -.2, -.4}); // sums to 2.8e-17, not to 0
  CHECK(cancel.difference.mean == 0);
  CHECK_FALSE(cancel.first_is_larger());
  for (const double sign : {1.0, -1.0}) { // 8 of 9 agree, and the mean is 0
    std::vector<double> even(8, .1 * sign);
    even.push_back(-.8 * sign);
    CHECK(signs(even).tie());
  }
}

TEST_CASE("Holm's correction: each next comparison must be less likely by chance, and none after the first failure") {
  const std::vector<double> p{0.01, 0.04, 0.03, none_there, 0.005};
  CHECK(hold_together(p) == std::vector<bool>{true, false, false, false, true}); // 0.05 / 4, / 3; 0.03 > 0.05 / 2
  CHECK(hold_together(std::vector<double>{0.02, 0.04}) == std::vector<bool>{true, true});
  CHECK(hold_together(std::vector<double>{0.03, 0.03}) == std::vector<bool>{false, false});
  CHECK(hold_together(std::vector<double>{}).empty());
}
