// SPDX-License-Identifier: Apache-2.0
// group_member: one device of a tensor-parallel group, with its share of the host.
#pragma once

#include "sluice/model/device/device.hpp"

#include <string>

namespace sluice {

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
