// SPDX-License-Identifier: Apache-2.0
// The expected figures are numpy.mean, median, std and percentile of the same numbers.
#include "../../../examples/tools/load/statistics.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using loading::Statistics;

TEST_CASE("Statistics: the same as NumPy's") {
  const Statistics<double> of({4, 1, 3, 2});
  CHECK(of.mean() == 2.5);
  CHECK(of.median() == 2.5);
  CHECK(of.deviation() == doctest::Approx(1.118033988749895));
  CHECK(of.percentile(99) == doctest::Approx(3.97));
  CHECK(of.percentile(0) == 1);
  CHECK(of.percentile(100) == 4);
  CHECK(of.largest() == 4);
}

TEST_CASE("Statistics: one number, no number") {
  const Statistics<float> one({0.5F});
  CHECK(one.mean() == 0.5);
  CHECK(one.deviation() == 0);
  CHECK(one.percentile(99) == 0.5);
  const Statistics<float> none(std::vector<float>{});
  CHECK(std::isnan(none.mean()));
  CHECK(std::isnan(none.percentile(50)));
  CHECK(std::isnan(none.deviation()));
}
