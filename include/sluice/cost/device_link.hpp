// SPDX-License-Identifier: Apache-2.0
// device_link: a device's link, for cost models that take it as its data sheet has it.
#pragma once

#include "sluice/cost/work.hpp"
#include "sluice/device/device.hpp"

namespace sluice {

[[nodiscard]] inline LinkCost device_link(const Device& device) {
  return {device.host_to_device, device.segment_cost, device.lanes, device.device_to_host, device.mix_loss};
}

} // namespace sluice
