// SPDX-License-Identifier: Apache-2.0
// same_hardware: whether a device is the hardware that a profile was measured on.
#pragma once

#include "sluice/model/device/device.hpp"

#include <string>
#include <string_view>

namespace compared {

/// Compares a driver's name ("NVIDIA A100-SXM4-80GB") with a device's ("a100-80"). Both are of one model of GPU, if
/// both name one, and of one size of memory, if the driver names that; otherwise the driver's name contains the
/// device's.
bool same_hardware(std::string_view measured, const sluice::Device& device);

/// The named devices of that model of GPU, "a100-40 or a100-80"; empty: none.
std::string devices_named_for(std::string_view measured);

} // namespace compared
