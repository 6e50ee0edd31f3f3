// SPDX-License-Identifier: Apache-2.0
// RangeCount: counts the iterations of a run that a measured profile extrapolates to.
#pragma once

#include "sluice/report/observer/event.hpp"
#include "sluice/report/remarks.hpp"

#include "engines/cost_choice.hpp"

#include <vector>

namespace compared {

/// Classifies each iteration after it has run, so that a cost model's lookups stay as they are. Planners' guesses do
/// not count: what they extrapolate does not become time.
class RangeCount {
 public:
  void hear(const sluice::IterationRecord& record, const engines::CostChoice& times);

  sluice::BeyondReport report;

 private:
  std::vector<sluice::ChunkWork> chunks_;
};

} // namespace compared
