// SPDX-License-Identifier: Apache-2.0
// Series: the observer that records memory and queue over time, in a fixed number of buckets.
#pragma once

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
  [[nodiscard]] double mean(const SeriesRange& range) const {
    return seconds > 0 ? range.integral / seconds : range.max;
  }
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

  void on(State& state, const events::Planned& event) const {
    state.layer_block_bytes = event.view.geometry.layer_block_bytes;
  }

  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    const double from = record.start.count();
    const double to = from + record.duration.count();
    if (state.buckets.empty()) {
      SLUICE_ASSERT(buckets >= 2 && buckets % 2 == 0, "an even number of buckets, so that neighbours merge");
      state.buckets.resize(static_cast<std::size_t>(buckets));
      state.start_s = from;
      state.width_s = std::max(record.duration.count(), 1e-6);
    }
    while (to > state.start_s + state.width_s * static_cast<double>(buckets)) widen(state);
    state.device_capacity = std::max(state.device_capacity, record.device_capacity);

    std::size_t at = bucket_of(state, from);
    const std::size_t last = bucket_of(state, to);
    for (; at <= last; ++at) {
      const double begin = state.start_s + static_cast<double>(at) * state.width_s;
      const double seconds = std::max(0.0, std::min(to, begin + state.width_s) - std::max(from, begin));
      if (seconds <= 0 && to > from) continue;
      add(state.buckets[at], record, seconds);
    }
  }

 private:
  static std::size_t bucket_of(const State& state, double time) {
    const double position = std::max(0.0, (time - state.start_s) / state.width_s);
    return std::min(static_cast<std::size_t>(position), state.buckets.size() - 1);
  }
  static void widen(State& state) {
    const std::size_t half = state.buckets.size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      SeriesBucket merged = state.buckets[2 * i];
      merged.merge(state.buckets[2 * i + 1]);
      state.buckets[i] = merged;
    }
    std::fill(state.buckets.begin() + static_cast<std::ptrdiff_t>(half), state.buckets.end(), SeriesBucket{});
    state.width_s *= 2;
  }
  static void add(SeriesBucket& bucket, const IterationRecord& record, double seconds) {
    const double share = record.duration.count() > 0 ? seconds / record.duration.count() : 1;
    const auto number = [](auto count) { return static_cast<double>(count); };
    ++bucket.samples;
    bucket.seconds += seconds;
    bucket.stall_s += share * record.stall.count();
    bucket.moved_blocks += share * number((record.to_device + record.to_host).count());
    bucket.running.add(number(record.running), seconds);
    bucket.waiting.add(number(record.waiting), seconds);
    bucket.preempted.add(number(record.preempted), seconds);
    bucket.device_used.add(number(record.device_used.count()), seconds);
    bucket.in_flight.add(number(record.in_flight.count()), seconds);
    bucket.host_used.add(number(record.host_used.count()), seconds);
  }
};

static_assert(explain<Series>());

} // namespace sluice
