// SPDX-License-Identifier: Apache-2.0
// Workload: where the requests of a run come from, for the head of every report; WorkloadTotals: what they amount to.
#pragma once

#include "sluice/workload/orbitflow_header.hpp"
#include "sluice/workload/reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace sluice {

/// Enough to make the same requests again.
struct Workload {
  std::string name;       ///< short: a file's name without folders, or the generator's
  std::string format;     ///< "azure", "mooncake", "orbitflow", "vllm" or "generated"
  std::string source;     ///< the path, or the text of `--generate`
  std::uint64_t seed = 0; ///< of the generator; a trace has nothing random
  ReadOptions options;
  std::optional<Seconds> step_time{};      ///< of a trace whose arrivals count engine steps
  std::optional<OrbitFlowHeader> limits{}; ///< the server's limits, where the trace carries them

  friend bool operator==(const Workload&, const Workload&) = default;
};

/// What a list of requests amounts to.
struct WorkloadTotals {
  std::int64_t requests = 0;
  Tokens prompt{0};    ///< sum
  Tokens output{0};    ///< sum
  Tokens longest{0};   ///< the most prompt and output tokens that one request has together
  Seconds span{0};     ///< first arrival to last
  double rate = 0.0;   ///< requests a second over the span: (requests - 1) / span, 0 of a span of 0
  double gap_cv = 0.0; ///< coefficient of variation of the gaps, 0 below two gaps

  friend constexpr bool operator==(const WorkloadTotals&, const WorkloadTotals&) = default;
};

/// `requests` in the order of arrival.
inline WorkloadTotals totals(std::span<const RequestSpec> requests) {
  WorkloadTotals sum;
  sum.requests = static_cast<std::int64_t>(requests.size());
  for (const RequestSpec& request : requests) {
    sum.prompt += request.prompt;
    sum.output += request.output;
    sum.longest = std::max(sum.longest, request.prompt + request.output);
  }
  if (requests.size() < 2) return sum;
  sum.span = requests.back().arrival - requests.front().arrival;
  const auto gaps = static_cast<double>(requests.size() - 1);
  if (sum.span.count() <= 0.0) return sum;
  sum.rate = gaps / sum.span.count();
  if (requests.size() < 3) return sum;
  const double mean = sum.span.count() / gaps;
  double squares = 0.0;
  for (std::size_t i = 1; i < requests.size(); ++i) {
    const double off = (requests[i].arrival - requests[i - 1].arrival).count() - mean;
    squares += off * off;
  }
  sum.gap_cv = std::sqrt(squares / gaps) / mean;
  return sum;
}

} // namespace sluice
