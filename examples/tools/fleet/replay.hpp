// SPDX-License-Identifier: Apache-2.0
// replay_fleet: serves the requests of a recorded fleet, and compares its figures with the measured ones.
#pragma once

#include "fleet/options.hpp"

#include <string>

namespace fleets {

/// Replays every recorded fleet in `options.replay`, a folder as LLMServingSim's artifact has it: requests as a CSV of
/// arrival_s,prompt,output or as its data set; config/NAME_config.json; kernel times in profile/; measured figures in
/// reference/ (docs/fleet.md). A fleet without figures or kernel times is left out, unless all are. Prints a table, or
/// JSON, and with --out a page that draws tokens per second. Returns the exit status.
int replay_fleet(const Options& options, const std::string& command);

} // namespace fleets
