// SPDX-License-Identifier: Apache-2.0
// Workload: who asks for what and when, with the tokens of every prompt.
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
  std::vector<std::vector<std::int32_t>> prompts{}; ///< of each; none of a trace
  std::string format{};                             ///< of a trace
  std::uint64_t seed = 0;                           ///< of a trace's
  int vocabulary = 0;

  [[nodiscard]] std::vector<std::int32_t> prompt(std::size_t request) const;
};

/// The prompts of the command line.
sluice::Expected<Workload> read_prompts(const Options& options, const sluice::LocalModel& model);
/// The trace of the command line. `cost`: what a step of traces whose arrivals count steps takes.
sluice::Expected<Workload> read_trace(const Options& options, const sluice::LocalModel& model,
                                      const engines::CostChoice& cost);

} // namespace running
