// SPDX-License-Identifier: Apache-2.0
// default_model, default_device: the machine that every program simulates if the command line names none.
#pragma once

#include <string_view>

inline constexpr std::string_view default_model = "llama3-8b"; ///< from OrbitFlow's paper, like the device
inline constexpr std::string_view default_device = "a5000";
