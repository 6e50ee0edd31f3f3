// SPDX-License-Identifier: Apache-2.0
// device_link: a device's link from its data sheet, for cost models.
#pragma once

#include "sluice/model/device/device.hpp"
#include "sluice/policy/cost/work.hpp"

namespace sluice {

[[nodiscard]] inline LinkCost device_link(const Device& device) {
  LinkCost link{.rate = device.host_to_device,
                .lanes = device.lanes,
                .out_rate = device.device_to_host,
                .mix_loss = device.mix_loss,
                .host_attention_rate = device.host_attention_rate,
                .host_attention_launch = device.host_attention_launch,
                .host_attention_batches = device.host_attention_batches};
  (device.copies == Copies::batched ? link.per_layer : link.per_segment) = device.segment_cost;
  return link;
}

} // namespace sluice
