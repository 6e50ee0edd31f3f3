// SPDX-License-Identifier: Apache-2.0
// MeasuredLine and AttentionGrid: measured kernel times, interpolated linearly.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/model/device/device.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

/// Two neighbours on an ascending axis and the weight of the second. Below the first point: the first. Above the last:
/// the line through the last two continues if it rises. If it falls (two noisy measurements), the last point is used,
/// because a far point would otherwise take negative time.
///
/// Linear in the coordinate although the axes are spaced geometrically: attention reads KV in proportion to every
/// coordinate, and a logarithm would bend the line upwards between two points (measured: +1.4 % of a whole run).
struct Bracket {
  std::size_t low = 0;
  std::size_t high = 0;
  double weight = 0.0; ///< of `high`; above 1 beyond the axis
};

template <class Axis, class Coordinate>
Bracket bracket(const Axis& axis, double at, Coordinate coordinate) {
  const std::size_t points = axis.size();
  if (points == 1 || at <= coordinate(axis[0])) return {};
  // Axes have 10 to 20 points: counting the smaller ones is free of branch mispredictions.
  std::size_t high = 1;
  for (std::size_t i = 1; i + 1 < points; ++i) high += coordinate(axis[i]) < at ? 1u : 0u;
  const double from = coordinate(axis[high - 1]);
  return {high - 1, high, (at - from) / (coordinate(axis[high]) - from)};
}

/// Interpolates `value(index)` at a bracket.
template <class Value>
double blend(const Bracket& between, Value value) {
  if (between.weight == 0.0) return value(between.low);
  if (between.weight == 1.0) return value(between.high);
  const double low = value(between.low);
  const double high = value(between.high);
  if (between.weight > 1.0 && high < low) return high;
  return low + between.weight * (high - low);
}

} // namespace detail

/// The size of an iteration that lies furthest beyond what was measured.
struct BeyondGrid {
  std::string_view axis{}; ///< what was measured up to `last`; empty: the iteration is within the grid
  double size = 0;
  double last = 0;

  /// Keeps the size if it is beyond its axis, and by a larger factor than what is kept.
  void add(std::string_view of, double at, double end) {
    if (at > end && (axis.empty() || at * last > size * end)) *this = {of, at, end};
  }
};

/// Measured seconds over a whole number (tokens or sequences).
class MeasuredLine {
 public:
  struct Point {
    std::int64_t at = 0;
    double seconds = 0.0;
  };

  MeasuredLine() = default;
  /// `points` ascend strictly; there is at least one.
  explicit MeasuredLine(std::vector<Point> points) : points_(std::move(points)) {
    SLUICE_ASSERT(!points_.empty(), "at least one point");
  }

  /// Interpolated; the first point below the first; above the last, the last line if it rises.
  [[nodiscard]] double at(double number) const {
    const auto after = std::lower_bound(points_.begin(), points_.end(), number,
                                        [](const Point& point, double value) { return real(point) < value; });
    if (after == points_.begin()) return points_.front().seconds;
    const Point& high = after == points_.end() ? points_.back() : *after;
    if (points_.size() == 1) return high.seconds;
    const Point& low = after == points_.end() ? points_[points_.size() - 2] : *(after - 1);
    if (after == points_.end() && high.seconds < low.seconds) return high.seconds; // as in `bracket`
    return low.seconds + (high.seconds - low.seconds) * (number - real(low)) / (real(high) - real(low));
  }
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }

 private:
  static double real(const Point& point) { return static_cast<double>(point.at); }

  std::vector<Point> points_;
};

/// A line whose values at whole numbers up to a bound are looked up instead of searched for.
class TabulatedLine {
 public:
  TabulatedLine() = default;
  /// The sum of `lines`, each times its factor, for 0 .. `last`; beyond, the last step continues.
  TabulatedLine(std::span<const MeasuredLine> lines, std::span<const double> factors, std::int64_t last)
      : values_(static_cast<std::size_t>(last) + 2) {
    SLUICE_ASSERT(last >= 1 && lines.size() == factors.size(), "a bound of at least 1, and a factor per line");
    for (std::size_t number = 1; number < values_.size(); ++number) {
      for (std::size_t i = 0; i < lines.size(); ++i) {
        values_[number] += factors[i] * lines[i].at(static_cast<double>(number));
      }
    }
  }
  /// 0 at 0; `number` is not negative.
  [[nodiscard]] double at(std::int64_t number) const {
    const auto last = static_cast<std::int64_t>(values_.size()) - 1;
    if (number <= last) return values_[static_cast<std::size_t>(number)];
    const double step = values_[static_cast<std::size_t>(last)] - values_[static_cast<std::size_t>(last - 1)];
    return values_[static_cast<std::size_t>(last)] + std::max(0.0, step) * static_cast<double>(number - last);
  }
  /// The largest number that was measured.
  [[nodiscard]] std::int64_t last() const { return static_cast<std::int64_t>(values_.size()) - 2; }

 private:
  std::vector<double> values_;
};

/// Attention kernel times, measured for one prompt chunk (its fresh tokens, and the tokens before it) together with a
/// number of decodes of equal context.
///
/// The measured points are not a full grid: a profiler leaves out points that do not fit its memory, and may sweep one
/// axis finer for some chunks only. So the axes are nested, and each point has its own next axis: chunk, then decodes,
/// then the chunk's past, then the decodes' context.
class AttentionGrid {
 public:
  struct Context {
    std::int64_t tokens = 0;
    double seconds = 0.0;
  };
  struct Past {
    std::int64_t tokens = 0;
    std::vector<Context> contexts;
  };
  struct Decodes {
    std::int64_t count = 0;
    std::vector<Past> pasts;
  };
  struct Chunk {
    std::int64_t tokens = 0;
    std::vector<Decodes> decodes;
  };

  AttentionGrid() = default;
  /// `chunks` ascend on every axis, and no list is empty. The first chunk is 0 (pure decoding) and has no decode count
  /// of 0; every other chunk starts with one (the chunk alone).
  explicit AttentionGrid(std::vector<Chunk> chunks) : chunks_(std::move(chunks)) {
    SLUICE_ASSERT(chunks_.size() >= 2 && chunks_.front().tokens == 0, "chunk 0, and at least one prompt chunk");
  }

  /// Seconds of decodes alone, with `context` tokens before the fresh one on average.
  [[nodiscard]] double decoding(double count, double context) const {
    return with_decodes(chunks_.front(), count, 0.0, context);
  }
  /// Seconds of a chunk of at least two tokens together with `count` decodes. A chunk shorter than the shortest
  /// measured takes that one's time: a kernel for more than one token per sequence works on tiles of 64 and is not the
  /// decode kernel, so there is nothing to interpolate towards. Beside a chunk that was only measured alone, decodes
  /// add the time that they take beyond a nearly empty kernel.
  [[nodiscard]] double chunk(double tokens, double past, double count, double context) const {
    const std::span<const Chunk> prompts = std::span(chunks_).subspan(1);
    const detail::Bracket between = detail::bracket(prompts, tokens, tokens_of<Chunk>);
    return detail::blend(between, [&](std::size_t i) {
      const std::vector<Decodes>& decodes = prompts[i].decodes;
      if (decodes.size() > 1 || decodes.front().count > 0 || count <= 0.0)
        return with_decodes(prompts[i], count, past, context);
      return with_past(decodes.front(), past, 0.0) + std::max(0.0, decoding(count, context) - floor());
    });
  }
  /// Which of these sizes, looked up as by `decoding` (a chunk of 0 tokens) or `chunk`, lies furthest beyond the
  /// measured points that the answer is made of.
  void beyond(double tokens, double past, double count, double context, BeyondGrid& worst) const {
    if (tokens <= 0.0) {
      beyond_with_decodes(chunks_.front(), count, 0.0, context, worst);
      return;
    }
    const std::span<const Chunk> prompts = std::span(chunks_).subspan(1);
    worst.add("prompt chunk", tokens, tokens_of(prompts.back()));
    each_of(detail::bracket(prompts, tokens, tokens_of<Chunk>), [&](std::size_t i) {
      const std::vector<Decodes>& decodes = prompts[i].decodes;
      if (decodes.size() > 1 || decodes.front().count > 0 || count <= 0.0) {
        beyond_with_decodes(prompts[i], count, past, context, worst);
      } else {
        beyond_with_past(decodes.front(), past, 0.0, worst);
        beyond(0.0, 0.0, count, context, worst);
      }
    });
  }
  /// Seconds of the nearly empty kernel: the shortest chunk with nothing before it.
  [[nodiscard]] double floor() const { return chunks_[1].decodes.front().pasts.front().contexts.front().seconds; }

  /// Tokens that one decode or chunk reads per second: the slope of the shortest chunk alone over its past. 0 if the
  /// grid has one past, or no rise.
  [[nodiscard]] double block_rate() const {
    const std::vector<Past>& pasts = chunks_[1].decodes.front().pasts;
    if (pasts.size() < 2) return 0;
    const Past& first = pasts[pasts.size() > 2 ? 1 : 0]; // 0 tokens is another kernel: nothing is read
    return rate(static_cast<double>(pasts.back().tokens - first.tokens),
                pasts.back().contexts.front().seconds - first.contexts.front().seconds);
  }
  /// Tokens that all decodes together read per second: the slope of the largest batch of decodes over its context.
  [[nodiscard]] double memory_rate() const {
    const Decodes& largest = chunks_.front().decodes.back();
    const std::vector<Context>& contexts = largest.pasts.front().contexts;
    if (contexts.size() < 2) return 0;
    const Context& first = contexts[contexts.size() > 2 ? 1 : 0];
    return rate(static_cast<double>(largest.count) * static_cast<double>(contexts.back().tokens - first.tokens),
                contexts.back().seconds - first.seconds);
  }

 private:
  static double rate(double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0.0; }
  template <class Node>
  static double tokens_of(const Node& node) {
    return static_cast<double>(node.tokens);
  }
  static double with_decodes(const Chunk& chunk, double count, double past, double context) {
    // "No decodes" is a separate point, not the start of the axis of their number.
    const bool alone = chunk.decodes.front().count == 0;
    if (count <= 0.0 && alone) return with_past(chunk.decodes.front(), past, 0.0);
    const std::span<const Decodes> counts = counts_of(chunk);
    return detail::blend(detail::bracket(counts, count, count_of),
                         [&](std::size_t i) { return with_past(counts[i], past, context); });
  }
  /// The measured numbers of decodes, without "no decodes" if there are others.
  static std::span<const Decodes> counts_of(const Chunk& chunk) {
    return std::span(chunk.decodes).subspan(chunk.decodes.front().count == 0 && chunk.decodes.size() > 1 ? 1 : 0);
  }
  static double count_of(const Decodes& decodes) { return static_cast<double>(decodes.count); }
  /// The points that `blend` reads.
  template <class Visit>
  static void each_of(const detail::Bracket& between, Visit visit) {
    if (between.weight != 1.0) visit(between.low);
    if (between.weight != 0.0) visit(between.high);
  }
  static void beyond_with_decodes(const Chunk& chunk, double count, double past, double context, BeyondGrid& worst) {
    if (count <= 0.0 && chunk.decodes.front().count == 0) {
      beyond_with_past(chunk.decodes.front(), past, 0.0, worst);
      return;
    }
    const std::span<const Decodes> counts = counts_of(chunk);
    worst.add("decodes", count, count_of(counts.back()));
    each_of(detail::bracket(counts, count, count_of),
            [&](std::size_t i) { beyond_with_past(counts[i], past, context, worst); });
  }
  static void beyond_with_past(const Decodes& decodes, double past, double context, BeyondGrid& worst) {
    worst.add("tokens before a chunk", past, tokens_of(decodes.pasts.back()));
    each_of(detail::bracket(decodes.pasts, past, tokens_of<Past>), [&](std::size_t i) {
      worst.add("mean context of the decodes", context, tokens_of(decodes.pasts[i].contexts.back()));
    });
  }
  static double with_past(const Decodes& decodes, double past, double context) {
    const detail::Bracket between = detail::bracket(decodes.pasts, past, tokens_of<Past>);
    return detail::blend(between, [&](std::size_t i) {
      const std::vector<Context>& contexts = decodes.pasts[i].contexts;
      return detail::blend(detail::bracket(contexts, context, tokens_of<Context>),
                           [&](std::size_t j) { return contexts[j].seconds; });
    });
  }

  std::vector<Chunk> chunks_;
};

// AllReduce: how long the devices of a group take to add up their partial sums.

/// The sum of `bytes` over `degree` devices, available on all of them afterwards; timed by the link's rates as a ring,
/// or as measured.
///
/// On the ring the message goes in `degree` parts, around once to be summed and once more to be distributed: 2(p-1)
/// steps, in each of which every device sends one part and receives another. So it takes launch + 2(p-1) (step + bytes
/// / p / rate); large messages move 2(p-1)/p of their bytes at the rate (Patarasuk and Yuan, "Bandwidth optimal
/// all-reduce algorithms", JPDC 2009).
class AllReduce {
 public:
  /// A group of one device: takes no time.
  AllReduce() = default;
  AllReduce(const PeerLink& link, int degree) : link_(link), degree_(degree) {
    SLUICE_ASSERT(degree >= 1 && link.rate.count() > 0, "devices, and a positive rate between them");
  }
  /// `seconds` as a function of bytes, measured with `degree` devices.
  AllReduce(MeasuredLine seconds, PeerPath path, int degree)
      : degree_(degree), is_measured_(true), measured_(std::move(seconds)) {
    SLUICE_ASSERT(degree >= 1, "devices");
    link_.path = path;
  }

  [[nodiscard]] Seconds seconds(double bytes) const {
    if (degree_ == 1 || bytes <= 0) return Seconds{0};
    if (is_measured_) return Seconds{measured_.at(bytes)};
    const double part_s = bytes / degree_ / link_.rate.count();
    return link_.launch + (link_.step + Seconds{part_s}) * (2.0 * (degree_ - 1));
  }
  /// Time to gather each device's part: the second round of the ring.
  [[nodiscard]] Seconds gather_seconds(double bytes) const {
    if (degree_ == 1 || bytes <= 0) return Seconds{0};
    return (seconds(bytes) + link_.launch) * 0.5;
  }

  [[nodiscard]] int degree() const { return degree_; }
  /// Whether it shares the link with transfers between host and device.
  [[nodiscard]] bool over_host_link() const { return degree_ > 1 && link_.path == PeerPath::host; }

 private:
  PeerLink link_;
  int degree_ = 1;
  bool is_measured_ = false;
  MeasuredLine measured_;
};

} // namespace sluice
