// SPDX-License-Identifier: Apache-2.0
// CopySegments: copies every byte of every row of every segment and no other.
#include "emulate/launch.hpp"
#include "kernels/copy/copy_segments.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::kernels;

namespace {

using Segments = CopySegments<>;

/// A packet of memory.
struct alignas(16) Line {
  std::uint64_t of[2];
  friend bool operator==(const Line&, const Line&) = default;
};
std::vector<Line> random_lines(std::mt19937_64& random, std::int64_t count) {
  std::vector<Line> lines(static_cast<std::size_t>(count));
  for (Line& line : lines) line = {{random(), random()}};
  return lines;
}

/// A segment in lines, where it begins in both memories.
struct CopiedPart {
  std::int64_t lines, rows, from, to;
};

} // namespace

TEST_CASE("a list of segments of any length and any number of rows is copied, from anywhere to anywhere") {
  constexpr std::int64_t piece = Segments::piece_bytes / 16, apart = 3; // in lines
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<CopiedPart> parts{{1, 1, 0, 0},
                                  {3, 8, 0, 0},
                                  {0, 1, 0, 0},
                                  {piece, 1, 0, 0},
                                  {piece + 1, 1, 0, 0},
                                  {2, 40, 0, 0},
                                  {7 * piece - 2, 1, 0, 0},
                                  {64, 9, 0, 0},
                                  {piece - 1, 2, 0, 0},
                                  {5, 1, 0, 0}};
    std::int64_t from_lines = 0, to_lines = 0;
    for (CopiedPart& part : parts) {
      part.from = std::exchange(from_lines, from_lines + part.rows * (part.lines + apart));
    }
    std::shuffle(parts.begin(), parts.end(), random);
    for (CopiedPart& part : parts) { // in another order there, with unused lines behind each row
      part.to = std::exchange(to_lines, to_lines + part.rows * (part.lines + 1));
    }
    const std::vector<Line> from = random_lines(random, from_lines);
    std::vector<Line> to = random_lines(random, to_lines);
    std::vector<Line> wanted = to;
    CopySegmentsParams params;
    std::vector<CopySegment> segments;
    for (const CopiedPart& part : parts) {
      segments.push_back({from.data() + part.from, to.data() + part.to, 16 * part.lines, part.rows,
                          16 * (part.lines + apart), 16 * (part.lines + 1)});
      params.longest = std::max(params.longest, 16 * part.lines * part.rows);
      for (std::int64_t row = 0; row < part.rows; ++row)
        std::copy_n(from.begin() + part.from + row * (part.lines + apart), part.lines,
                    wanted.begin() + part.to + row * (part.lines + 1));
    }
    params.segments = segments.data();
    params.count = static_cast<int>(segments.size());
    params.ctas = seed == 1 ? 1 : seed == 2 ? 3 : seed == 3 ? 10 : 40;
    const auto run = [&params](std::uint64_t drawn) {
      const emulate::Report report = emulate::launch<Segments>(Segments::grid(params), params, drawn);
      CHECK_MESSAGE(report.ok(), report.text());
    };
    const std::vector<Line> before = to;
    run(seed);
    CHECK(to == wanted);

    std::copy(before.begin(), before.end(), to.begin()); // the same list, passed with the launch
    params.segments = nullptr;
    std::copy(segments.begin(), segments.end(), params.launched);
    run(seed + 10);
    CHECK(to == wanted);
  }
}

TEST_CASE("several blocks share a long segment if segments are few, and no block is launched without work") {
  CopySegmentsParams params;
  params.ctas = 16;
  CHECK(Segments::grid(params).x == 0);
  params.count = 60;
  params.longest = 64 << 10;
  CHECK(Segments::grid(params).x == 16);
  CHECK(Segments::grid(params).y == 1);
  params.count = 3;
  params.longest = 4 << 20;
  CHECK(Segments::grid(params).x == 3);
  CHECK(Segments::grid(params).y == 5);
  params.longest = 16;
  CHECK(Segments::grid(params).y == 1);
}
