// SPDX-License-Identifier: Apache-2.0
// Resampled: redraws a recorded trace by a seed, so that one trace gives a workload per seed.
#pragma once

#include "sluice/workload/distributions.hpp"
#include "sluice/workload/workload.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

/// The part of a trace that is redrawn.
struct Resampling {
  enum class Kind : std::uint8_t {
    blocks,   ///< runs of consecutive requests, with their gaps and lengths: a circular block bootstrap
    arrivals, ///< only the gaps: gamma, with the trace's mean and coefficient of variation
  };
  Kind kind = Kind::blocks;
  std::int64_t block = 0; ///< requests per block; 0: the cube root of their number, rounded

  friend bool operator==(const Resampling&, const Resampling&) = default;
};

/// Draws as many requests as the trace has, from the trace, by a seed. The first arrives at 0.
///
/// Blocks assume nothing about gaps and lengths, keep bursts up to a block's length, and repeat some requests and drop
/// others, as another day of the same users might. Arrivals keep every request in the trace's order and show the effect
/// of arrival times. Rejected: redrawing single requests, which are blocks of one and have no bursts.
///
/// Unlike other readers it keeps the whole trace in memory, since a block may begin anywhere.
class Resampled {
 public:
  /// `trace`: requests in the order of arrival, at least one.
  Resampled(std::vector<RequestSpec> trace, Resampling how, std::uint64_t seed)
      : trace_(std::move(trace)), how_(how), random_(seed) {
    SLUICE_ASSERT(!trace_.empty() && how.block >= 0, "a trace with requests, and blocks of some");
    const WorkloadTotals sum = totals(trace_);
    const auto gaps = static_cast<double>(trace_.size() - 1);
    mean_gap_ = gaps > 0 ? sum.span / gaps : Seconds{0};
    cv_ = sum.gap_cv;
    how_.block = block_of(how_, trace_.size());
  }

  /// Requests per block for a trace of `requests`: 27 for 20,000.
  [[nodiscard]] static std::int64_t block_of(Resampling how, std::size_t requests) {
    return how.block > 0 ? how.block : std::max(1LL, std::llround(std::cbrt(static_cast<double>(requests))));
  }

  Expected<std::optional<RequestSpec>> next() {
    if (made_ == trace_.size()) return std::optional<RequestSpec>{};
    const std::size_t source = how_.kind == Resampling::Kind::blocks ? next_of_blocks() : made_;
    RequestSpec request = trace_[source];
    if (made_ > 0) now_ += how_.kind == Resampling::Kind::blocks ? gap_before(source) : drawn_gap();
    request.arrival = now_;
    ++made_;
    return std::optional{request};
  }

 private:
  std::size_t next_of_blocks() {
    if (left_ == 0) {
      at_ = random_.below(trace_.size());
      left_ = how_.block;
    } else {
      at_ = (at_ + 1) % trace_.size(); // circular, so that each request is equally likely
    }
    --left_;
    return at_;
  }
  /// The first request has no gap before it and gets the mean of the others'.
  [[nodiscard]] Seconds gap_before(std::size_t source) const {
    return source == 0 ? mean_gap_ : trace_[source].arrival - trace_[source - 1].arrival;
  }
  Seconds drawn_gap() {
    if (!(mean_gap_.count() > 0) || !(cv_ > 0)) return mean_gap_;
    return Seconds{draw_gap(random_, {ArrivalKind::gamma, 1 / mean_gap_.count(), cv_})};
  }

  std::vector<RequestSpec> trace_;
  Resampling how_;
  Random random_;
  Seconds mean_gap_{0}, now_{0};
  double cv_ = 0;
  std::size_t made_ = 0, at_ = 0;
  std::int64_t left_ = 0; ///< left in the current block
};

static_assert(TraceReader<Resampled>);

} // namespace sluice
