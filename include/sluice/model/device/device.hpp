// SPDX-License-Identifier: Apache-2.0
// Device: an accelerator, its link to the host, and the host's memory.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/math.hpp"
#include "sluice/core/units.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

// Lanes: how the two directions of a link share it.
enum class Lanes : std::uint8_t {
  shared,   ///< one lane: while both directions are active they share one rate, less the mix loss
  each_way, ///< one lane each way: both run at once, each at its own rate less the mix loss
};

/// What counts as one copy over the link, and costs `segment_cost` once.
enum class Copies : std::uint8_t {
  batched,      ///< everything that a layer's transfer moves: one launch for many segments
  each_segment, ///< each contiguous run of memory; the layout of the KV memory determines its size
};

/// How a device reaches its peers in the same node.
enum class PeerPath : std::uint8_t {
  own,  ///< its own fabric (NVLink): peer transfers share it with nothing else
  host, ///< the link to the host (PCIe, through a switch or the host's root): peer transfers and offloading share it
};

/// The link between peers, as collectives over a whole group use it: each device sends to the next one on a ring.
struct PeerLink {
  PeerPath path = PeerPath::own;
  BytesPerSecond rate{
      0};            ///< to the next peer, while receiving from the previous one: nccl-tests' "busbw" of large messages
  Seconds step{0};   ///< latency of a message, whatever its size
  Seconds launch{0}; ///< once per collective

  friend bool operator==(const PeerLink&, const PeerLink&) = default;
};

/// An accelerator as cost models and the link see it. Rates are bytes and FLOPs per second; memories are bytes.
///
/// The link is a property of the device and its host, so a transfer rule models no hardware: it only says which
/// transfer gets the link when.
struct Device {
  std::string name;
  Bytes memory{0};                            ///< all of the device's memory, weights included
  BytesPerSecond memory_bandwidth{0};         ///< peak, from the data sheet
  FlopsPerSecond half_precision_peak{0};      ///< dense FP16/BF16 matrix products with FP32 accumulation
  std::optional<double> compute_fraction{};   ///< achieved share of that peak, if a source states it
  std::optional<double> bandwidth_fraction{}; ///< the same for the memory bandwidth
  BytesPerSecond host_to_device{0};           ///< one direction alone, pinned memory, large segments
  BytesPerSecond device_to_host{0};
  Lanes lanes = Lanes::each_way;
  double mix_loss = 0.0;   ///< share of its rate that a direction loses while the other is active
  Seconds segment_cost{0}; ///< fixed cost of each copied segment
  Copies copies = Copies::batched;
  Bytes host_memory{0};           ///< the host's memory, the upper limit for offloading
  std::optional<PeerLink> peer{}; ///< if a source states it; without a peer link, the device serves alone
  /// Bytes of KV a second that the host's processor attends in its own memory; 0: it does not attend.
  BytesPerSecond host_attention_rate{0};
  /// Fixed time of the host's attention in a layer, for each of NEO's sub-batches: launches, and waiting for copies.
  /// NEO's predictor adds 0.8 ms (`lnch_T` in swiftllm/perfpredictor.py).
  Seconds host_attention_launch{0.8e-3};
  /// The sub-batches between which the device alternates while the host attends: 2, NEO's, or 1: the host then attends
  /// beside the device's own attention, and a layer waits for both. A device with 1 is a processor that attends in the
  /// memory it computes in: queries, K, V and outputs cross no link, and what copying them takes is in the launch and
  /// the rate.
  int host_attention_batches = 2;

  friend bool operator==(const Device&, const Device&) = default;

  /// Matrix products per second: the stated share of the peak, or `if_unstated` of it. Cost models state their own
  /// assumption; the device does not guess.
  [[nodiscard]] FlopsPerSecond compute_rate(double if_unstated) const {
    return half_precision_peak * compute_fraction.value_or(if_unstated);
  }
  [[nodiscard]] BytesPerSecond memory_rate(double if_unstated) const {
    return memory_bandwidth * bandwidth_fraction.value_or(if_unstated);
  }
};

namespace detail {

inline Status check_device_rate(const char* name, double value, const std::string& where) {
  if (math::isfinite(value) && value > 0.0 && value <= 1e21) return {};
  return Error{ErrorCode::bad_input, where, std::string{name} + " is " + std::to_string(value), "a positive number"};
}

inline Status check_device_share(const char* name, double value, bool zero_is_valid, const std::string& where) {
  const bool valid = zero_is_valid ? value >= 0.0 && value < 1.0 : value > 0.0 && value <= 1.0;
  if (valid) return {};
  return Error{ErrorCode::bad_input, where, std::string{name} + " is " + std::to_string(value),
               zero_is_valid ? "a share from 0 to below 1" : "a share above 0 and at most 1"};
}

} // namespace detail

/// An error if the numbers are no valid device; `where` opens the error's line.
inline Status check(const Device& device, const std::string& where) {
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

// group_member: one device of a tensor-parallel group, with its share of the host.

/// One of `degree` equal devices, of which every `per_link` share one link to the host (a PCIe switch's uplink); with 1
/// each device has its own link, and the group offloads at `degree` times the link's rate. All devices work in step:
/// when one uses the link its neighbours do too, and each gets its share. The host's memory and its attention are
/// divided evenly. `where` opens the error's line.
///
/// The rate between peers is unchanged: a transfer between two devices on one switch does not use the switch's uplink.
inline Expected<Device> group_member(Device device, int degree, int per_link, const std::string& where) {
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
