// SPDX-License-Identifier: Apache-2.0
// Series: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/series.hpp"

#include <algorithm>

namespace sluice {

SLUICE_INLINE double SeriesBucket::mean(const SeriesRange& range) const {
  return seconds > 0 ? range.integral / seconds : range.max;
}

SLUICE_INLINE void Series::on(State& state, const events::Planned& event) const {
  state.layer_block_bytes = event.view.geometry.layer_block_bytes;
}

SLUICE_INLINE void Series::on(State& state, const events::Iterated& event) const {
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

SLUICE_INLINE std::size_t Series::bucket_of(const State& state, double time) {
  const double position = std::max(0.0, (time - state.start_s) / state.width_s);
  return std::min(static_cast<std::size_t>(position), state.buckets.size() - 1);
}

SLUICE_INLINE void Series::widen(State& state) {
  const std::size_t half = state.buckets.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    SeriesBucket merged = state.buckets[2 * i];
    merged.merge(state.buckets[2 * i + 1]);
    state.buckets[i] = merged;
  }
  std::fill(state.buckets.begin() + static_cast<std::ptrdiff_t>(half), state.buckets.end(), SeriesBucket{});
  state.width_s *= 2;
}

SLUICE_INLINE void Series::add(SeriesBucket& bucket, const IterationRecord& record, double seconds) {
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

} // namespace sluice
