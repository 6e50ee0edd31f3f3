// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/tools/profile/spread.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

TEST_CASE("the spread of timings is the spread of their middle half") {
  using profiled::spread;
  CHECK(spread({}) == 0);
  CHECK(spread({3}) == 0);
  CHECK(spread({2, 2, 2, 2, 2}) == 0);
  CHECK(spread({1, 2, 3, 4, 5}) == doctest::Approx(2.0 / 3));
  CHECK(spread({1, 1, 1, 1, 100}) == 0); // the figure excludes a single outlier, too
  std::vector<double> values{1, 1.5, 2, 2.5, 4, 8, 9, 30};
  const double apart = spread(values);
  do {
    CHECK(spread(values) == apart); // in any order
    for (const double factor : {0.25, 64.0}) {
      std::vector<double> scaled = values;
      for (double& value : scaled) value *= factor;
      CHECK(spread(scaled) == apart); // and in any unit
    }
    std::rotate(values.begin(), values.begin() + 3, values.end());
  } while (values.front() != 1);
}
