// SPDX-License-Identifier: Apache-2.0
// LiveState: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/live_state.hpp"

#include <cmath>
#include <string_view>

namespace sluice {

SLUICE_INLINE void LiveHistory::add(const LiveSample& now) {
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

SLUICE_INLINE void LiveHistory::write(JsonWriter& json) const {
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

SLUICE_INLINE void LiveHistory::push(const LiveSample& sample) {
  if (samples_.size() == most) samples_.erase(samples_.begin()); // at most once every two seconds
  samples_.push_back(sample);
}

} // namespace sluice
