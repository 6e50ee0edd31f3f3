// SPDX-License-Identifier: Apache-2.0
// IntervalRecord: Select-N's performance record: the smallest interval for each SLO, batch size and length.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/math.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// What an iteration computes. An interval belongs to one phase: a prompt computes long enough to hide transfers that a
/// decode cannot hide.
enum class InferencePhase : std::uint8_t {
  prefill, ///< whole prompts; the SLO is that of the first token
  decode,  ///< one token of each request; the SLO is that of a token
};

[[nodiscard]] constexpr std::string_view name_of(InferencePhase phase) {
  return phase == InferencePhase::prefill ? "prefill" : "decode";
}

/// The points of a record: batch sizes 1, 2, 4, … and lengths from `least_length`, doubling; SLOs from one step on.
struct IntervalGrid {
  std::int64_t max_batch = 128;        ///< requests; a power of two
  Tokens least_length{128};            ///< of each request, prompt or context; a power of two
  Tokens max_length{4096};             ///< a power of two, at least `least_length`
  Seconds slo_step{0.002};             ///< the paper's prototype
  std::int64_t slo_steps = 500;        ///< the longest SLO, in steps: the paper's rarely exceed a second
  static constexpr int doublings = 30; ///< the most doublings of batch sizes or lengths

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

  /// The smallest batch of the grid that is at least `batch`; `batches()` if the grid ends before.
  [[nodiscard]] constexpr int batch_index(std::int64_t batch) const {
    return std::min(doublings_to(std::max<std::int64_t>(1, batch)), batches());
  }
  [[nodiscard]] constexpr int length_index(Tokens length) const {
    return std::min(doublings_to(std::max(length, least_length).count()) - doublings_to(least_length.count()),
                    lengths());
  }
  /// The longest SLO of the grid that is at most `slo`, in steps; 0 if there is none. Times with a relative difference
  /// below 1e-9 are equal, because they were computed.
  [[nodiscard]] std::int64_t steps_within(Seconds slo) const {
    const double steps = math::floor(slo / slo_step * (1 + 1e-9));
    return steps < static_cast<double>(slo_steps) ? std::max<std::int64_t>(0, static_cast<std::int64_t>(steps))
                                                  : slo_steps;
  }
  /// The shortest SLO of the grid that is at least `time`, in steps.
  [[nodiscard]] std::int64_t steps_for(Seconds time) const {
    const double steps = math::ceil(time / slo_step * (1 - 1e-9));
    constexpr auto most = std::int64_t{1} << 60;
    return steps < static_cast<double>(most) ? std::max<std::int64_t>(1, static_cast<std::int64_t>(steps)) : most;
  }

 private:
  /// The smallest n with 2^n >= count.
  [[nodiscard]] static constexpr int doublings_to(std::int64_t count) {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count) - 1));
  }
};

/// One batch size and length: which interval each SLO allows.
struct IntervalPoint {
  /// The smallest interval that meets this SLO, valid up to the next one of the list.
  struct From {
    std::int64_t slo_steps = 0;
    int interval = 0;

    friend bool operator==(const From&, const From&) = default;
  };
  Seconds resident{0};         ///< the iteration's time without streaming: no SLO below it can be met
  std::vector<From> intervals; ///< SLOs ascending, intervals descending; below the first, no weights may stream

  friend bool operator==(const IntervalPoint&, const IntervalPoint&) = default;
};

/// A record's answer to one question.
struct IntervalAnswer {
  /// The smallest interval that meets the SLO at the point that answered; 0: no weights may stream, because no interval
  /// meets it or the record ends before.
  int interval = 0;
  bool recorded = false;  ///< false: no point has a batch and a length this large, so there is no record
  std::int64_t batch = 0; ///< of the point that answered
  Tokens length{0};       ///< the same
  Seconds slo{0};         ///< the same
  Seconds resident{0};    ///< the same: without streaming
};

/// The smallest interval that meets an SLO, for each SLO, batch size and length, for prompts and for decodes, with a
/// bus of its own (Select-N, 4.4). `record_intervals` or a backend makes it once for a model on a device.
///
/// A question between the points is answered "conservatively from the nearest combination": the nearest larger batch,
/// greater length and tighter SLO. A larger batch or a greater length computes more while the same weights cross the
/// link, so the iteration takes at least as long: an interval that meets the SLO there meets it here. (If an SLO is a
/// multiple of the batch's own time, as in the paper's Table 1, intervals *fall* with both: a larger batch then has a
/// different SLO.) A batch or a length above the largest recorded one has no such neighbour: then nothing may stream,
/// and `recorded` says why.
///
/// The smallest interval is a step function of the SLO, stored as its steps: a question costs two shifts and a search
/// through at most as many steps as there are intervals. A table of all SLOs would have 500 entries per point, nearly
/// all equal to their neighbour.
class IntervalRecord {
 public:
  /// What the record was made for, and from which times.
  struct Heading {
    std::string model, device;
    std::string times; ///< the source of the times: a cost model, a backend
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
