// SPDX-License-Identifier: Apache-2.0
// A server's run once more: its requests, at its clock's times.
#pragma once

#include "sluice/core/expected.hpp"

#include "run/job.hpp"
#include "serve/options.hpp"
#include "serve/system.hpp"

#include <cstdint>

namespace serving {

/// Puts the requests of --replay through `system` at the times of --replay-clock; returns how many. `recorded`: what to
/// keep of it. Errors: files of no server's whole run, and an engine that asks for something else than the recorded
/// one.
sluice::Expected<std::int64_t> replay(const Options& options, const engines::System& system, const Served& served,
                                      sluice::Slo slo, running::Recorded& recorded);

} // namespace serving
