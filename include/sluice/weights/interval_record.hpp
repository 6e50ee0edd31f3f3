// SPDX-License-Identifier: Apache-2.0
// IntervalRecord: Select-N's performance record: for each SLO, batch size and length the smallest interval.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// What an iteration does. An interval belongs to one of the two: a prompt computes long enough to hide what a decode
/// cannot.
enum class InferencePhase : std::uint8_t {
  prefill, ///< whole prompts; the SLO is that of the first token
  decode,  ///< one token of each request; the SLO is that of a token
};

[[nodiscard]] constexpr std::string_view name_of(InferencePhase phase) {
  return phase == InferencePhase::prefill ? "prefill" : "decode";
}

/// Where a record has points: batch sizes 1, 2, 4, … and lengths from `least_length`, doubling; SLOs from one step on.
struct IntervalGrid {
  std::int64_t max_batch = 128;        ///< requests; a power of two
  Tokens least_length{128};            ///< of each request, prompt or context; a power of two
  Tokens max_length{4096};             ///< a power of two, at least `least_length`
  Seconds slo_step{0.002};             ///< the paper's prototype
  std::int64_t slo_steps = 500;        ///< the longest SLO, in steps: the paper's rarely exceed a second
  static constexpr int doublings = 30; ///< of batch sizes or lengths, at most

  [[nodiscard]] constexpr bool valid() const {
    const auto power = [](std::int64_t count) {
      return count >= 1 && count <= std::int64_t{1} << doublings &&
             std::has_single_bit(static_cast<std::uint64_t>(count));
    };
    return power(max_batch) && power(least_length.count()) && power(max_length.count()) && least_length <= max_length &&
           slo_step > Seconds{0} && slo_steps >= 1;
  }
  [[nodiscard]] constexpr int batches() const { return doublings_to(max_batch) + 1; }
  [[nodiscard]] constexpr int lengths() const {
    return doublings_to(max_length.count()) - doublings_to(least_length.count()) + 1;
  }
  [[nodiscard]] static constexpr std::int64_t batch(int index) { return std::int64_t{1} << index; }
  [[nodiscard]] constexpr Tokens length(int index) const { return Tokens{least_length.count() << index}; }

  /// The smallest batch of the grid that is no smaller than `batch`; `batches()` where the grid ends before.
  [[nodiscard]] constexpr int batch_index(std::int64_t batch) const {
    return std::min(doublings_to(std::max<std::int64_t>(1, batch)), batches());
  }
  [[nodiscard]] constexpr int length_index(Tokens length) const {
    return std::min(doublings_to(std::max(length, least_length).count()) - doublings_to(least_length.count()),
                    lengths());
  }
  /// The longest SLO of the grid that is no longer than `slo`, in steps; 0 where there is none. Times that differ by
  /// less than 1e-9 of themselves count as the same, because they were computed.
  [[nodiscard]] std::int64_t steps_within(Seconds slo) const {
    const double steps = std::floor(slo / slo_step * (1 + 1e-9));
    return steps < static_cast<double>(slo_steps) ? std::max<std::int64_t>(0, static_cast<std::int64_t>(steps))
                                                  : slo_steps;
  }
  /// The shortest SLO of the grid that `time` meets, in steps.
  [[nodiscard]] std::int64_t steps_for(Seconds time) const {
    const double steps = std::ceil(time / slo_step * (1 - 1e-9));
    constexpr auto most = std::int64_t{1} << 60;
    return steps < static_cast<double>(most) ? std::max<std::int64_t>(1, static_cast<std::int64_t>(steps)) : most;
  }

 private:
  /// The least n with 2^n >= count.
  [[nodiscard]] static constexpr int doublings_to(std::int64_t count) {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count) - 1));
  }
};

/// One batch size and length: what each SLO allows.
struct IntervalPoint {
  /// From this SLO on, until the next one of the list, the smallest interval that meets it.
  struct From {
    std::int64_t slo_steps = 0;
    int interval = 0;

    friend bool operator==(const From&, const From&) = default;
  };
  Seconds resident{0};         ///< the iteration's time with nothing streamed: no SLO below it can be met
  std::vector<From> intervals; ///< SLOs ascending, intervals descending; below the first, none may stream

  friend bool operator==(const IntervalPoint&, const IntervalPoint&) = default;
};

/// What a record answers to one question.
struct IntervalAnswer {
  /// The smallest interval that meets the SLO, by the point that answered; 0: no weights may stream, for no interval
  /// meets it or because the record ends before.
  int interval = 0;
  bool recorded = false;  ///< false: no point has as large a batch and as great a length, so nothing is known
  std::int64_t batch = 0; ///< of the point that answered
  Tokens length{0};       ///< the same
  Seconds slo{0};         ///< the same
  Seconds resident{0};    ///< the same: with nothing streamed
};

/// For each SLO, batch size and length the smallest interval that meets the SLO, for prompts and for decodes, with a
/// bus to itself (Select-N, 4.4). Made once for a model on a device, by `record_intervals` or by a backend.
///
/// A question between the points is answered "conservatively from the nearest combination": a larger batch, a greater
/// length and a tighter SLO, each the nearest. With a larger batch or a greater length more is computed while the same
/// weights cross the link, so that the iteration takes no less: an interval that meets the SLO there meets it here.
/// (Where an SLO is a multiple of what the batch takes, as in the paper's Table 1, intervals *fall* with both: the SLO
/// of a larger batch is then another, and the question another one.) A batch or a length above the largest recorded has
/// no such neighbour. The answer then is that nothing may stream, and `recorded` says why.
///
/// The smallest interval is a step function of the SLO, kept as its steps: a question costs two shifts and a search
/// through as many steps as there are intervals. A table of all SLOs would have 500 entries a point, nearly all of them
/// like the one before.
class IntervalRecord {
 public:
  /// What the record was made for, and from what.
  struct Heading {
    std::string model, device;
    std::string times; ///< where the times come from: a cost model, a backend
    int layers = 0;
    Bytes layer_weight_bytes{0};

    friend bool operator==(const Heading&, const Heading&) = default;
  };

  IntervalRecord(Heading heading, const IntervalGrid& grid)
      : heading_(std::move(heading)),
        grid_(grid),
        points_(2 * static_cast<std::size_t>(grid.batches()) * static_cast<std::size_t>(grid.lengths())) {
    SLUICE_ASSERT(grid.valid(), "powers of two, and a step of the SLO above 0");
  }

  [[nodiscard]] const Heading& heading() const { return heading_; }
  [[nodiscard]] const IntervalGrid& grid() const { return grid_; }
  [[nodiscard]] IntervalPoint& at(InferencePhase phase, int batch, int length) {
    return points_[position(phase, batch, length)];
  }
  [[nodiscard]] const IntervalPoint& at(InferencePhase phase, int batch, int length) const {
    return points_[position(phase, batch, length)];
  }

  [[nodiscard]] IntervalAnswer look_up(InferencePhase phase, std::int64_t batch, Tokens length, Seconds slo) const {
    const int b = grid_.batch_index(batch);
    const int l = grid_.length_index(length);
    IntervalAnswer answer;
    if (b == grid_.batches() || l == grid_.lengths()) return answer;
    const IntervalPoint& point = at(phase, b, l);
    const std::int64_t steps = grid_.steps_within(slo);
    answer.interval = interval_at(point, steps);
    answer.recorded = true;
    answer.batch = IntervalGrid::batch(b);
    answer.length = grid_.length(l);
    answer.slo = grid_.slo_step * static_cast<double>(steps);
    answer.resident = point.resident;
    return answer;
  }

  /// The smallest interval of a point that meets an SLO of `slo_steps` steps; 0: none.
  [[nodiscard]] static int interval_at(const IntervalPoint& point, std::int64_t slo_steps) {
    const auto above =
        std::upper_bound(point.intervals.begin(), point.intervals.end(), slo_steps,
                         [](std::int64_t steps, const IntervalPoint::From& from) { return steps < from.slo_steps; });
    return above == point.intervals.begin() ? 0 : std::prev(above)->interval;
  }
  /// The tightest recorded SLO that an interval of at most `most` meets.
  [[nodiscard]] Seconds tightest(const IntervalPoint& point, int most) const {
    for (const IntervalPoint::From& from : point.intervals)
      if (from.interval <= most) return grid_.slo_step * static_cast<double>(from.slo_steps);
    return Seconds{std::numeric_limits<double>::infinity()};
  }

 private:
  [[nodiscard]] std::size_t position(InferencePhase phase, int batch, int length) const {
    SLUICE_ASSERT(batch >= 0 && batch < grid_.batches() && length >= 0 && length < grid_.lengths(),
                  "a point of the grid");
    return (static_cast<std::size_t>(phase) * static_cast<std::size_t>(grid_.batches()) +
            static_cast<std::size_t>(batch)) *
               static_cast<std::size_t>(grid_.lengths()) +
           static_cast<std::size_t>(length);
  }

  Heading heading_;
  IntervalGrid grid_;
  std::vector<IntervalPoint> points_; ///< by phase, batch, length
};

} // namespace sluice
