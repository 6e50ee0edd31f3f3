// SPDX-License-Identifier: Apache-2.0
// What a seed serves of a trace: windows of it, or requests resampled from it.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/report/report.hpp"
#include "sluice/state/view/view.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/workload/resampled.hpp"

#include "compare/memory.hpp"
#include "compare/options.hpp"
#include "compare/source.hpp"
#include "compare/world.hpp"

#include <optional>
#include <span>

namespace compared {

/// Returns what a seed serves of the trace; empty: the trace is served as recorded. Errors: flags exclude each other,
/// or there is no trace.
sluice::Expected<std::optional<sluice::Resampling>> resampling_of(const WorkloadOptions& workload);

/// Lets a seed draw its requests from the recorded ones. Sessions are drawn whole, and then opened.
void resample(const WorkloadOptions& workload, const sluice::Resampling& how, Openers& open);

/// Returns the mean number of requests of the busy period that a request of the trace is in, if the machine serves one
/// after the other, each in its share of a full batch's time.
double busy_period(const World& world, std::span<const sluice::RequestSpec> requests, const Budget& budget,
                   const sluice::Limits& limits);

/// Checks what a seed serves of a trace against the trace, sets the length of its blocks, and says it in the report.
/// `busy`: requests of a busy period, which a block should hold. Error: the trace has too few requests.
sluice::Status set_resampling(const WorkloadOptions& workload, std::span<const sluice::RequestSpec> recorded,
                              double busy, sluice::Resampling& how, sluice::WorkloadReport& w);

} // namespace compared
