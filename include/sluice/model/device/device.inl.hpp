// SPDX-License-Identifier: Apache-2.0
// device: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/math.hpp"
#include "sluice/model/device/device.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

namespace detail {

SLUICE_INLINE Status check_device_rate(const char* name, double value, const std::string& where) {
  if (math::isfinite(value) && value > 0.0 && value <= 1e21) return {};
  return Error{ErrorCode::bad_input, where, std::string{name} + " is " + std::to_string(value), "a positive number"};
}

SLUICE_INLINE Status check_device_share(const char* name, double value, bool zero_is_valid, const std::string& where) {
  const bool valid = zero_is_valid ? value >= 0.0 && value < 1.0 : value > 0.0 && value <= 1.0;
  if (valid) return {};
  return Error{ErrorCode::bad_input, where, std::string{name} + " is " + std::to_string(value),
               zero_is_valid ? "a share from 0 to below 1" : "a share above 0 and at most 1"};
}

} // namespace detail

SLUICE_INLINE Status check(const Device& device, const std::string& where) {
  const struct {
    const char* name;
    double value;
  } rates[] = {
      {"the device memory", static_cast<double>(device.memory.count())},
      {"the memory bandwidth", device.memory_bandwidth.count()},
      {"the half-precision peak", device.half_precision_peak.count()},
      {"the host-to-device rate", device.host_to_device.count()},
      {"the device-to-host rate", device.device_to_host.count()},
  };
  for (const auto& rate : rates) {
    if (Status status = detail::check_device_rate(rate.name, rate.value, where); !status) return status;
  }
  if (Status status = detail::check_device_share("the loss when both directions mix", device.mix_loss, true, where);
      !status) {
    return status;
  }
  if (device.compute_fraction) {
    if (Status status = detail::check_device_share("the achieved share of the compute peak", *device.compute_fraction,
                                                   false, where);
        !status) {
      return status;
    }
  }
  if (device.bandwidth_fraction) {
    if (Status status = detail::check_device_share("the achieved share of the memory bandwidth",
                                                   *device.bandwidth_fraction, false, where);
        !status) {
      return status;
    }
  }
  if (!(device.segment_cost.count() >= 0.0 && device.segment_cost.count() < 1.0)) {
    return Error{ErrorCode::bad_input, where,
                 "the cost of a segment is " + std::to_string(device.segment_cost.count()) + " s",
                 "seconds from 0 to below 1"};
  }
  if (!(device.host_attention_rate.count() >= 0.0 && device.host_attention_rate.count() <= 1e21))
    return Error{ErrorCode::bad_input, where,
                 "the host's attention rate is " + std::to_string(device.host_attention_rate.count()),
                 "bytes per second, 0 or more"};
  if (device.host_attention_batches != 1 && device.host_attention_batches != 2)
    return Error{ErrorCode::bad_input, where,
                 "the host attends in " + std::to_string(device.host_attention_batches) + " sub-batches", "1 or 2"};
  if (device.host_memory.count() < 0) {
    return Error{ErrorCode::bad_input, where, "the host memory is negative", "bytes, 0 or more"};
  }
  if (device.peer) {
    if (Status status = detail::check_device_rate("the rate between peers", device.peer->rate.count(), where); !status)
      return status;
    for (const Seconds each : {device.peer->step, device.peer->launch})
      if (!(each.count() >= 0.0 && each.count() < 1.0))
        return Error{ErrorCode::bad_input, where, "a latency between peers is " + std::to_string(each.count()) + " s",
                     "seconds from 0 to below 1"};
  }
  return {};
}

SLUICE_INLINE Expected<Device> group_member(Device device, int degree, int per_link, const std::string& where) {
  if (per_link < 1 || degree % per_link != 0)
    return Error{ErrorCode::bad_input, where,
                 std::to_string(degree) + " devices cannot share links " + std::to_string(per_link) + " by " +
                     std::to_string(per_link),
                 "a number that divides the devices"};
  if (degree > 1 && !device.peer)
    return Error{ErrorCode::bad_input, where, "nothing says how fast " + device.name + " reaches its peers",
                 "a device with a link between peers (`peer_link` in a device file), or a group of 1"};
  device.host_memory = device.host_memory / degree;
  device.host_attention_rate = device.host_attention_rate / static_cast<double>(degree);
  device.host_to_device = device.host_to_device / per_link;
  device.device_to_host = device.device_to_host / per_link;
  return device;
}

} // namespace sluice
