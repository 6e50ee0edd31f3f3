// SPDX-License-Identifier: Apache-2.0
// Workload: the source of a run's requests, shown in the head of every report. WorkloadTotals: their sums.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/workload/reader.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace sluice {

// OrbitFlowHeader: the server's limits in an OrbitFlow trace.

/// The server's limits, which an OrbitFlow trace has in addition to its requests.
struct OrbitFlowHeader {
  std::int64_t batch_size = 1;      ///< requests that run together
  Tokens max_model_len{1};          ///< tokens of a batch
  TokenBlocks budget{1};            ///< `num_gpu_blocks_override`: the device's KV budget
  TokenBlocks peak_batch_blocks{1}; ///< the most blocks that any batch of the trace needs
  std::int64_t requests = 0;        ///< counted on opening

  friend constexpr bool operator==(const OrbitFlowHeader&, const OrbitFlowHeader&) = default;
};

/// Everything that is needed to make the same requests again.
struct Workload {
  std::string name;       ///< short: a file's name without folders, or the generator's name
  std::string format;     ///< a name of `--format`, or "generated"
  std::string source;     ///< the path, or the text of `--generate`
  std::uint64_t seed = 0; ///< the generator's seed; unused for a trace
  ReadOptions options;
  std::string taken_for{}; ///< the kind of file that the reader took a trace for, and the fields that told it; empty if
                           ///< the user named the format
  std::string remark{};    ///< what was left out: "1 failed request left out"; empty: nothing
  std::optional<Seconds> step_time{};      ///< for a trace whose arrivals count engine steps
  std::optional<OrbitFlowHeader> limits{}; ///< the server's limits, if the trace has them

  friend bool operator==(const Workload&, const Workload&) = default;
};

/// Sums over a list of requests.
struct WorkloadTotals {
  std::int64_t requests = 0;
  Tokens prompt{0};    ///< sum
  Tokens output{0};    ///< sum
  Tokens longest{0};   ///< maximum of prompt plus output tokens over the requests
  Seconds span{0};     ///< from the first arrival to the last
  double rate = 0.0;   ///< requests per second over the span: (requests - 1) / span, 0 if the span is 0
  double gap_cv = 0.0; ///< coefficient of variation of the gaps, 0 below two gaps
  // The span and the figures derived from it cover requests that follow none, because the arrivals of the others depend
  // on the system.
  std::int64_t sessions = 0; ///< number of sessions

  friend constexpr bool operator==(const WorkloadTotals&, const WorkloadTotals&) = default;
};

/// Says what a trace was read as, with its first and last arrival, for a caption: "read as Mooncake's trace
/// (input_length): arrivals from 0 to 59.8 s". Empty if the user named the format and nothing was left out. A trace
/// read as another one has other times, so its user sees the mistake. `requests`: those that were read.
std::string taken_for_text(const Workload& workload, std::span<const RequestSpec> requests);

/// `requests`: in order of arrival.
WorkloadTotals totals(std::span<const RequestSpec> requests);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/workload.inl.hpp"
#endif
