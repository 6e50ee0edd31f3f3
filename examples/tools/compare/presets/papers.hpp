// SPDX-License-Identifier: Apache-2.0
// The presets of each paper. Comments name the source of every value in the text; values missing from the text are
// marked as assumed.
#pragma once

#include "compare/preset.hpp"

#include <vector>

namespace compared {

std::vector<Preset> orbitflow_presets();
std::vector<Preset> select_n_presets();
std::vector<Preset> ellm_presets();
std::vector<Preset> superinfer_presets();
std::vector<Preset> mirage_presets();
std::vector<Preset> tiers_presets();

} // namespace compared
