// SPDX-License-Identifier: Apache-2.0
// SkewTable: measured decodes of two lengths in one batch.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/policy/cost/work.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice {

/// Where the time of unequal decodes lies between that of as many at their mean length (0) and that of as many at the
/// longest (1), as measured for batches of two lengths (LLMServingSim 2.0's `skew.csv`, column `alpha`).
///
/// A batch is looked up by its chunk, its decodes and its skew, (longest - mean) / longest: the nearest measured one on
/// each axis, in this order. The measured batches have their long sequences first, and two lengths; `DecodeTail`
/// computes what the table measures, for any order and lengths.
class SkewTable {
 public:
  struct Point {
    std::int64_t chunk = 0; ///< fresh tokens beside the decodes
    std::int64_t decodes = 0;
    double skew = 0;  ///< in [0, 1)
    double share = 0; ///< of the way from the mean's time to the longest one's
  };

  explicit SkewTable(std::vector<Point> points) : points_(std::move(points)) {
    SLUICE_ASSERT(!points_.empty(), "at least one point");
    std::sort(points_.begin(), points_.end(), [](const Point& a, const Point& b) {
      return std::tie(a.chunk, a.decodes, a.skew) < std::tie(b.chunk, b.decodes, b.skew);
    });
  }

  /// `decoding(context)`: seconds of the work's decodes at that many tokens before the fresh one.
  template <class Decoding>
  [[nodiscard]] double seconds(const Work& work, Decoding decoding) const {
    if (work.contexts.size() < 2) return 0;
    double sum = 0, most = 0;
    for (const Tokens context : work.contexts) {
      sum += static_cast<double>(context.count() - 1);
      most = std::max(most, static_cast<double>(context.count() - 1));
    }
    const double mean = sum / static_cast<double>(work.contexts.size());
    if (most <= mean) return 0;
    std::int64_t chunk = 0;
    for (const ChunkWork& part : work.chunks)
      if (part.fresh > Tokens{1}) chunk += part.fresh.count();
    const double share = at(chunk, work.decodes, (most - mean) / most);
    return std::max(0.0, share * (decoding(most) - decoding(mean)));
  }
  [[nodiscard]] double at(std::int64_t chunk, std::int64_t decodes, double skew) const {
    auto first = points_.begin(), last = points_.end();
    narrow(first, last, static_cast<double>(chunk), [](const Point& p) { return static_cast<double>(p.chunk); });
    narrow(first, last, static_cast<double>(decodes), [](const Point& p) { return static_cast<double>(p.decodes); });
    narrow(first, last, skew, [](const Point& p) { return p.skew; });
    double sum = 0;
    for (auto point = first; point != last; ++point) sum += point->share;
    return sum / static_cast<double>(last - first);
  }

 private:
  using Iterator = std::vector<Point>::const_iterator;
  /// Keeps the points whose coordinate is nearest; of two equally near ones the smaller.
  template <class Coordinate>
  static void narrow(Iterator& first, Iterator& last, double at, Coordinate coordinate) {
    auto above = std::lower_bound(first, last, at, [&](const Point& p, double value) { return coordinate(p) < value; });
    double nearest = above == last ? coordinate(*(above - 1)) : coordinate(*above);
    if (above != first && above != last && at - coordinate(*(above - 1)) <= coordinate(*above) - at)
      nearest = coordinate(*(above - 1));
    const auto less = [&](const Point& p, double value) { return coordinate(p) < value; };
    const auto more = [&](double value, const Point& p) { return value < coordinate(p); };
    first = std::lower_bound(first, last, nearest, less);
    last = std::upper_bound(first, last, nearest, more);
  }

  std::vector<Point> points_; ///< ascending
};

} // namespace sluice
