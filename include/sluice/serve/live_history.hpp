// SPDX-License-Identifier: Apache-2.0
// LiveHistory: memory, queue and counters of an engine during the last minutes.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/report/observer/json_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// The state at one time. Counters count from the start; readers compute differences.
struct LiveSample {
  double time_s = 0;
  std::int64_t running = 0, waiting = 0, preempted = 0;
  std::int64_t device_used = 0, device_capacity = 0, host_used = 0; ///< layer blocks
  std::int64_t to_device = 0, to_host = 0;                          ///< layer blocks moved; counters
  std::int64_t released = 0, missed = 0;                            ///< tokens and deadlines, counters
  double busy_s = 0, stall_s = 0;                                   ///< counters
};

/// The last state of each two-second interval, for at most `most` intervals (five minutes). An interval without events
/// has no sample, because the previous state still holds.
class LiveHistory {
 public:
  static constexpr double every_s = 2;
  static constexpr std::size_t most = 150;

  void add(const LiveSample& now);
  [[nodiscard]] const std::vector<LiveSample>& samples() const { return samples_; }

  /// Writes the samples as columns. Times are rounded to a chart's resolution; counters are exact.
  void write(JsonWriter& json) const;

 private:
  void push(const LiveSample& sample);

  std::vector<LiveSample> samples_;
  std::int64_t last_ = 0; ///< the interval of the newest sample
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/live_history.inl.hpp"
#endif
