// SPDX-License-Identifier: Apache-2.0
// default_model, default_device: what is simulated where the command line names nothing, in every program.
#pragma once

#include <string_view>

inline constexpr std::string_view default_model = "llama3-8b"; ///< of OrbitFlow's paper, as the device is
inline constexpr std::string_view default_device = "a5000";
