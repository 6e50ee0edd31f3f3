// SPDX-License-Identifier: Apache-2.0
// LiveHistory: memory, queue and counters of an engine during the last minutes.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/report/observer/json_writer.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
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

  void add(const LiveSample& now) {
    const auto bucket = static_cast<std::int64_t>(std::floor(now.time_s / every_s));
    if (!samples_.empty() && bucket <= last_) {
      samples_.back() = now;
      return;
    }
    // After a gap, the previous state is repeated, so that all later events are counted in this interval only.
    if (!samples_.empty() && bucket > last_ + 1) {
      LiveSample before = samples_.back();
      before.time_s = static_cast<double>(bucket) * every_s;
      push(before);
    }
    push(now);
    last_ = bucket;
  }
  [[nodiscard]] const std::vector<LiveSample>& samples() const { return samples_; }

  /// Writes the samples as columns. Times are rounded to a chart's resolution; counters are exact.
  void write(JsonWriter& json) const {
    const auto column = [&](std::string_view name, auto value) {
      json.key(name).begin_array();
      for (const LiveSample& sample : samples_) json.value(sample.*value);
      json.end_array();
    };
    const auto seconds = [&](std::string_view name, double LiveSample::*value) {
      json.key(name).begin_array();
      for (const LiveSample& sample : samples_) json.rounded(sample.*value, 9);
      json.end_array();
    };
    json.begin_object().key("every_s").value(every_s);
    seconds("time_s", &LiveSample::time_s);
    column("running", &LiveSample::running);
    column("waiting", &LiveSample::waiting);
    column("preempted", &LiveSample::preempted);
    column("device_used", &LiveSample::device_used);
    column("device_capacity", &LiveSample::device_capacity);
    column("host_used", &LiveSample::host_used);
    column("to_device", &LiveSample::to_device);
    column("to_host", &LiveSample::to_host);
    column("released", &LiveSample::released);
    column("missed", &LiveSample::missed);
    seconds("busy_s", &LiveSample::busy_s);
    seconds("stall_s", &LiveSample::stall_s);
    json.end_object();
  }

 private:
  void push(const LiveSample& sample) {
    if (samples_.size() == most) samples_.erase(samples_.begin()); // at most once every two seconds
    samples_.push_back(sample);
  }

  std::vector<LiveSample> samples_;
  std::int64_t last_ = 0; ///< the interval of the newest sample
};

} // namespace sluice
