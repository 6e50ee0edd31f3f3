// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/report/observer/quantile.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using sluice::CdfPoint;
using sluice::Distribution;
using sluice::nearest_rank;
using sluice::WeightedSample;

TEST_CASE("the nearest rank is the least rank that covers the share, in integer arithmetic") {
  for (std::int64_t n = 1; n <= 400; ++n)
    for (std::int64_t percent = 0; percent <= 100; ++percent) {
      const std::int64_t expected = std::max<std::int64_t>(1, (percent * n + 99) / 100);
      CHECK(nearest_rank(static_cast<double>(percent) / 100, n) == expected);
    }
  CHECK(nearest_rank(0.99, 1'000'000'000'000) == 990'000'000'000);
}

TEST_CASE("quantiles of grouped samples are those of the values written out and sorted") {
  sluice::Random random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<WeightedSample> samples;
    std::vector<double> values;
    const auto groups = 1 + random.below(40);
    for (std::uint64_t g = 0; g < groups; ++g) {
      const double value = static_cast<double>(random.below(25)) * 0.125; // equal values in several groups
      const auto count = static_cast<std::int64_t>(random.below(6));      // sometimes zero
      samples.push_back({value, count});
      values.insert(values.end(), static_cast<std::size_t>(count), value);
    }
    std::sort(values.begin(), values.end());
    const Distribution distribution{samples};
    REQUIRE(distribution.count() == static_cast<std::int64_t>(values.size()));
    if (values.empty()) {
      CHECK(distribution.empty());
      CHECK(std::isnan(distribution.quantile(0.5)));
      CHECK(std::isnan(distribution.mean()));
      CHECK(distribution.cdf(50).empty());
      continue;
    }
    double sum = 0;
    for (const double value : values) sum += value;
    CHECK(distribution.mean() == doctest::Approx(sum / static_cast<double>(values.size())));
    CHECK(distribution.min() == values.front());
    CHECK(distribution.max() == values.back());
    for (int permille = 0; permille <= 1000; ++permille) {
      const std::size_t rank =
          std::max<std::size_t>(1, (static_cast<std::size_t>(permille) * values.size() + 999) / 1000);
      CHECK(distribution.quantile(permille / 1000.0) == values[rank - 1]);
    }
    for (const double value : {-1.0, 0.0, 0.5, 1.0625, 3.0, 9.0}) {
      const auto below = std::upper_bound(values.begin(), values.end(), value) - values.begin();
      CHECK(distribution.share_up_to(value) ==
            doctest::Approx(static_cast<double>(below) / static_cast<double>(values.size())));
    }
  }
}

TEST_CASE("points of the distribution function rise, end at the largest value, and are exact") {
  sluice::Random random(3);
  std::vector<WeightedSample> samples;
  for (int i = 0; i < 5000; ++i) samples.push_back({std::exp(4 * random.uniform()), 1 + static_cast<int>(i % 3)});
  const Distribution distribution{samples};
  const std::vector<CdfPoint> curve = distribution.cdf(120);
  REQUIRE(curve.size() > 100);
  REQUIRE(curve.size() <= 121);
  CHECK(curve.front().value == distribution.min());
  CHECK(curve.back().value == distribution.max());
  CHECK(curve.back().fraction == 1.0);
  for (std::size_t i = 0; i < curve.size(); ++i) {
    CHECK(curve[i].fraction == distribution.share_up_to(curve[i].value));
    if (i == 0) continue;
    CHECK(curve[i].value > curve[i - 1].value);
    CHECK(curve[i].fraction > curve[i - 1].fraction);
  }
}
