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

Status check_device_rate(const char* name, double value, const std::string& where);

Status check_device_share(const char* name, double value, bool zero_is_valid, const std::string& where);

} // namespace detail

/// An error if the numbers are no valid device; `where` opens the error's line.
Status check(const Device& device, const std::string& where);

// group_member: one device of a tensor-parallel group, with its share of the host.

/// One of `degree` equal devices, of which every `per_link` share one link to the host (a PCIe switch's uplink); with 1
/// each device has its own link, and the group offloads at `degree` times the link's rate. All devices work in step:
/// when one uses the link its neighbours do too, and each gets its share. The host's memory and its attention are
/// divided evenly. `where` opens the error's line.
///
/// The rate between peers is unchanged: a transfer between two devices on one switch does not use the switch's uplink.
Expected<Device> group_member(Device device, int degree, int per_link, const std::string& where);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/model/device/device.inl.hpp" // IWYU pragma: keep
#endif
