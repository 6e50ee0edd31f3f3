// SPDX-License-Identifier: Apache-2.0
// Workload: the requests and their arrival times, with the tokens of every prompt.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/request.hpp"
#include "sluice/world/local/model.hpp"

#include "engines/cost_choice.hpp"
#include "run/options.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace running {

struct Workload {
  std::vector<sluice::RequestSpec> requests;        ///< in the order of arrival
  std::vector<std::vector<std::int32_t>> prompts{}; ///< one per request; empty for a trace
  std::string format{};                             ///< of a trace
  std::string taken_for{};                          ///< how the trace was read (taken_for_text)
  std::uint64_t seed = 0;                           ///< seed of a trace's prompts
  int vocabulary = 0;

  [[nodiscard]] std::vector<std::int32_t> prompt(std::size_t request) const;
};

/// Reads the prompts of the command line.
sluice::Expected<Workload> read_prompts(const Options& options, const sluice::LocalModel& model);
/// Reads the trace of the command line. `cost`: gives the step time for traces whose arrivals count steps.
sluice::Expected<Workload> read_trace(const Options& options, const sluice::LocalModel& model,
                                      const engines::CostChoice& cost);

} // namespace running
