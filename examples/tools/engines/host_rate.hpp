// SPDX-License-Identifier: Apache-2.0
// check_host_rate: whether a device states how fast its host attends KV, for a system that needs it.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/device/device.hpp"

#include "engines/system.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace engines {

/// `of`: what stated the device, which `flag` chose. `expected`: what would state a rate.
[[nodiscard]] inline sluice::Status check_host_rate(const System& system, const sluice::Device& device,
                                                    std::string flag, std::string_view of, std::string expected) {
  if (!system.host_attends || device.host_attention_rate.count() > 0) return {};
  return sluice::Error{sluice::ErrorCode::bad_input, std::move(flag),
                       std::string{system.name} + " needs the rate at which the host attends KV, and " +
                           std::string{of} + " states none",
                       std::move(expected)};
}

} // namespace engines
