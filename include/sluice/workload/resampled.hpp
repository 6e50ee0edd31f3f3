// SPDX-License-Identifier: Apache-2.0
// Resampled: a recorded trace drawn again, so that one trace gives as many workloads as there are seeds.
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

/// What of a trace is drawn anew.
struct Resampling {
  enum class Kind : std::uint8_t {
    blocks,   ///< runs of consecutive requests, with their gaps and lengths: a circular block bootstrap
    arrivals, ///< the gaps alone: gamma, with the trace's mean and coefficient of variation
  };
  Kind kind = Kind::blocks;
  std::int64_t block = 0; ///< requests of a block; 0: the cube root of how many there are, rounded

  friend bool operator==(const Resampling&, const Resampling&) = default;
};

/// As many requests as the trace has, drawn from the trace by a seed. The first arrives at 0.
///
/// Blocks assume nothing of gaps and lengths, keep bursts as long as a block, and serve some requests twice and others
/// never, as another day of the same users might. Arrivals keep every request, in the order of the trace, and ask how
/// much the moments of arrival decide. Rejected: single requests drawn anew, which are blocks of one, without any
/// burst.
///
/// It keeps the whole trace in memory, where other readers keep one request: a block may begin anywhere.
class Resampled {
 public:
  /// The requests of a trace in the order of arrival, at least one.
  Resampled(std::vector<RequestSpec> trace, Resampling how, std::uint64_t seed)
      : trace_(std::move(trace)), how_(how), random_(seed) {
    SLUICE_ASSERT(!trace_.empty() && how.block >= 0, "a trace with requests, and blocks of some");
    const WorkloadTotals sum = totals(trace_);
    const auto gaps = static_cast<double>(trace_.size() - 1);
    mean_gap_ = gaps > 0 ? sum.span / gaps : Seconds{0};
    cv_ = sum.gap_cv;
    how_.block = block_of(how_, trace_.size());
  }

  /// How many requests a block has of a trace of so many: of 20,000 some 27.
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
      at_ = (at_ + 1) % trace_.size(); // the trace is a circle, so that no request is drawn less often than others
    }
    --left_;
    return at_;
  }
  /// The first request of a trace has no gap before it: it gets the mean of the others.
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
  std::int64_t left_ = 0; ///< of the block that is being served
};

static_assert(TraceReader<Resampled>);

} // namespace sluice
