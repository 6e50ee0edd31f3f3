// SPDX-License-Identifier: Apache-2.0
// Sketch against exact quantiles.
#include "sluice/core/random.hpp"
#include "sluice/report/observer/sketch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace sluice;

namespace {

/// Values of one kind: some are 0, and others spread over orders of magnitude.
std::vector<double> some_values(std::uint64_t seed, std::size_t count, double zeros, double spread) {
  Random random(seed);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(random.uniform() < zeros ? 0.0 : std::exp(spread * (random.uniform() - 0.5)));
  return values;
}
Sketch sketch_of(const std::vector<double>& values) {
  Sketch sketch;
  for (const double value : values) sketch.add(value);
  return sketch;
}
void check_quantiles(const Sketch& sketch, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += value;
  REQUIRE(sketch.count() == static_cast<std::int64_t>(values.size()));
  CHECK(sketch.sum() == doctest::Approx(sum));
  CHECK(sketch.max() == values.back());
  for (const double p : {0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(p * static_cast<double>(values.size()))));
    const double exact = values[rank - 1];
    INFO(p << " of " << values.size());
    CHECK(std::abs(sketch.quantile(p) - exact) <= Sketch::error * exact);
  }
}

} // namespace

TEST_CASE("a sketch's quantiles are off by at most its error, zeros included") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const double zeros : {0.0, 0.3, 0.95}) {
      std::vector<double> values = some_values(seed, 1 + seed * 37, zeros, 12);
      check_quantiles(sketch_of(values), values);
      const std::vector<double> others = some_values(seed + 100, 500, zeros / 2, 4); // of another range
      values.insert(values.end(), others.begin(), others.end());
      check_quantiles(sketch_of(values), values);
    }
}

TEST_CASE("a value of 0 or near it takes no memory of a sketch") {
  Sketch sketch;
  sketch.add(0);
  sketch.add(1e-300);
  sketch.add(0.1);
  sketch.add(10);
  CHECK(sketch.buckets() < 1000);
  CHECK(sketch.quantile(0.5) == 0);
  CHECK(sketch.max() == 10);
}
