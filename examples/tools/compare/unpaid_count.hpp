// SPDX-License-Identifier: Apache-2.0
// UnpaidCount: finds the decisions of a run that computed for long and were not charged for it.
#pragma once

#include "sluice/report/observer/event.hpp"
#include "sluice/report/remarks.hpp"

namespace compared {

/// Takes what an engine computes between two iterations for one decision. Engines that share a thread would be charged
/// for each other.
class UnpaidCount {
 public:
  void hear(const sluice::AnyEvent& event);

  sluice::UnpaidReport report;

 private:
  sluice::LapClock clock_;
  double charged_s_ = 0; ///< since the last iteration
};

} // namespace compared
