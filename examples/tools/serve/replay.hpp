// SPDX-License-Identifier: Apache-2.0
// Replays a server's run: its requests, at its clock's times.
#pragma once

#include "sluice/core/expected.hpp"

#include "run/job.hpp"
#include "serve/options.hpp"
#include "serve/system.hpp"

#include <cstdint>

namespace serving {

/// Serves the requests of --replay with `system` at the times of --replay-clock; returns their number. `recorded`: the
/// results to store. Errors: the files are not those of a server's whole run, or the engine makes other decisions than
/// the recorded one.
sluice::Expected<std::int64_t> replay(const Options& options, const engines::System& system, const Served& served,
                                      sluice::Slo slo, running::Recorded& recorded);

} // namespace serving
