// SPDX-License-Identifier: Apache-2.0
// Series: the observer that records memory and queue over time, in a fixed number of buckets.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/observer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice {

/// The range of one quantity during a bucket. `mean` is weighted by the time that iterations took.
struct SeriesRange {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double integral = 0; ///< value times seconds

  constexpr void add(double value, double seconds) {
    min = std::min(min, value);
    max = std::max(max, value);
    integral += value * seconds;
  }
  constexpr void merge(const SeriesRange& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    integral += other.integral;
  }
};

/// One bucket of time. An iteration that spans several buckets counts proportionally in each.
struct SeriesBucket {
  double seconds = 0; ///< time that iterations took; less than the width if the engine idled
  double stall_s = 0;
  double moved_blocks = 0; ///< in both directions
  std::int64_t samples = 0;
  SeriesRange running, waiting, preempted;
  SeriesRange device_used, in_flight, host_used; ///< layer blocks

  [[nodiscard]] bool empty() const { return samples == 0; }
  [[nodiscard]] double mean(const SeriesRange& range) const;
  constexpr void merge(const SeriesBucket& other) {
    seconds += other.seconds;
    stall_s += other.stall_s;
    moved_blocks += other.moved_blocks;
    samples += other.samples;
    running.merge(other.running);
    waiting.merge(other.waiting);
    preempted.merge(other.preempted);
    device_used.merge(other.device_used);
    in_flight.merge(other.in_flight);
    host_used.merge(other.host_used);
  }
};

/// Memory and queue over time in at most `buckets` buckets of equal width, however long the run.
///
/// The width starts at the first iteration's duration. When the run outgrows the buckets, the width doubles and
/// neighbours are merged. Minimum, maximum and mean of each bucket are exact, so no spike is lost at any width; only
/// its time within the bucket is. Rejected: recording every n-th iteration, which loses spikes.
struct Series {
  using role = roles::Observer;
  using hears = Events<events::Planned, events::Iterated>;
  static constexpr bool wants_timeline = false;

  int buckets = 256; ///< even, at least 2

  struct State {
    double start_s = 0; ///< of bucket 0
    double width_s = 0;
    std::vector<SeriesBucket> buckets;
    LayerBlocks device_capacity{0};
    Bytes layer_block_bytes{0};
  };

  void on(State& state, const events::Planned& event) const;

  void on(State& state, const events::Iterated& event) const;

 private:
  static std::size_t bucket_of(const State& state, double time);
  static void widen(State& state);
  static void add(SeriesBucket& bucket, const IterationRecord& record, double seconds);
};

static_assert(explain<Series>());

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/series.inl.hpp"
#endif
