// SPDX-License-Identifier: Apache-2.0
// load: asks a server for a workload's completions.
#pragma once

#include "sluice/core/expected.hpp"

#include "load/options.hpp"
#include "load/report.hpp"
#include "load/workload.hpp"

namespace loading {

/// Sends every request at its arrival, and waits for all answers. Errors: there is no server, or it does not say what
/// it serves; later failures are in the report.
sluice::Expected<LoadReport> load(const Options& options, const Workload& workload);

} // namespace loading
