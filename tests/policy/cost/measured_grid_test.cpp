// SPDX-License-Identifier: Apache-2.0
// Measured lines beyond their last point: noise must not make far work take negative time.
#include "sluice/policy/cost/measured_grid.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace sluice;

TEST_CASE("beyond the last point a rising line continues, and a falling one stays constant") {
  const MeasuredLine rising{{{1, 1.0}, {2, 3.0}}};
  CHECK(rising.at(10) == doctest::Approx(19.0));
  const MeasuredLine falling{{{1, 3.0}, {2, 1.0}}};
  CHECK(falling.at(1.5) == doctest::Approx(2.0));
  CHECK(falling.at(1000) == 1.0);

  const std::array<MeasuredLine, 1> lines{falling};
  const std::array<double, 1> factors{2.0};
  const TabulatedLine table{lines, factors, 2};
  CHECK(table.at(2) == doctest::Approx(2.0));
  CHECK(table.at(1000) == doctest::Approx(2.0));

  using Grid = AttentionGrid;
  const Grid grid{{{0, {{1, {{0, {{16, 5.0}, {64, 1.0}}}}}}}, {16, {{0, {{0, {{0, 1.0}}}}}}}}};
  CHECK(grid.decoding(1, 64) == 1.0);
  CHECK(grid.decoding(1, 100'000) == 1.0);
  CHECK(grid.decoding(1000, 100'000) == 1.0);
}
