// SPDX-License-Identifier: Apache-2.0
// Measured lines beyond their last point: noise must not make far work take negative time.
#include "sluice/policy/cost/measured_grid.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

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

TEST_CASE("decodes beside a chunk that was measured alone add their time beyond a nearly empty kernel") {
  using Grid = AttentionGrid;
  // Decodes: 2 s, and 1 s per decode and 100 tokens. Chunks: 3 s, and 1 s per 16 tokens beyond the first 16.
  const std::vector<Grid::Decodes> decodes{{1, {{0, {{0, 2.0}, {100, 3.0}}}}}, {3, {{0, {{0, 2.0}, {100, 5.0}}}}}};
  const Grid grid{{{0, decodes}, {16, {{0, {{0, {{0, 3.0}}}, {100, {{0, 4.0}}}}}}}, {32, {{0, {{0, {{0, 4.0}}}}}}}}};
  CHECK(grid.chunk(16, 0, 0, 0) == 3.0);
  CHECK(grid.chunk(16, 0, 3, 100) == 3.0 + (5.0 - 3.0));
  CHECK(grid.chunk(24, 0, 2, 100) == doctest::Approx(3.5 + (4.0 - 3.0)));
  CHECK(grid.chunk(16, 50, 3, 100) == doctest::Approx(3.5 + 2.0));
  CHECK(grid.chunk(16, 0, 1, 0) == 3.0); // less than an empty kernel
  // A chunk that was measured beside decodes keeps its own times.
  const Grid measured{{{0, decodes}, {16, {{0, {{0, {{0, 3.0}}}}}, {1, {{0, {{0, 3.25}}}}}}}}};
  CHECK(measured.chunk(16, 0, 1, 100) == 3.25);
}
