// SPDX-License-Identifier: Apache-2.0
// The presets of each paper. Every value names where the text gives it; what it does not give is said to be assumed.
#pragma once

#include "compare/preset.hpp"

#include <vector>

namespace compared {

std::vector<Preset> orbitflow_presets();
std::vector<Preset> select_n_presets();
std::vector<Preset> ellm_presets();
std::vector<Preset> superinfer_presets();
std::vector<Preset> mirage_presets();

} // namespace compared
