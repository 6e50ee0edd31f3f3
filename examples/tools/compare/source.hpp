// SPDX-License-Identifier: Apache-2.0
// Source: where the requests come from: a trace, a generator, or the demo.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/units.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/workload/workload.hpp"

#include "compare/options.hpp"
#include "compare/run.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace compared {

struct Source {
  bool demo = false;
  std::optional<sluice::TraceFile> file{};
  std::optional<sluice::OrbitFlowHeader> header{}; ///< of an OrbitFlow trace: describes its experiment
};

/// Finds the trace's format and reads its header. Errors: no such file, or no known format.
sluice::Expected<Source> source_of(const WorkloadOptions& workload);

/// Whether arrivals count each system's own steps.
inline bool by_steps(const WorkloadOptions& workload) { return workload.arrivals == "steps"; }

/// Refuses a generated workload before it is drawn, if the records of its requests would fill the memory.
sluice::Status check_count(const WorkloadOptions& workload);

using OpenRequests = std::function<sluice::Expected<Requests>(sluice::Slo)>;

/// Functions that open the workload at its beginning.
struct Openers {
  std::function<sluice::Expected<sluice::Trace>(sluice::Slo)> trace; ///< as recorded or generated
  OpenRequests recorded;                                             ///< with --lengths applied; sessions as recorded
  OpenRequests requests;                                             ///< what is served
};

/// `whole`: not only --limit requests are read, since those that are served are drawn from all. `full_step`: the unit
/// of an OrbitFlow trace's arrivals. Error: --lengths is no generator.
sluice::Expected<Openers> openers_of(const Options& options, const Source& source, bool whole,
                                     sluice::Seconds full_step);

/// Returns the same requests at their recorded arrivals: none waits for another's answer.
sluice::Expected<Requests> opened_sessions(sluice::Expected<Requests> of);

/// Returns all requests of a workload, with only the SLOs of their own.
sluice::Expected<std::vector<sluice::RequestSpec>> requests_of(const OpenRequests& open);

} // namespace compared
