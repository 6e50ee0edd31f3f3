// SPDX-License-Identifier: Apache-2.0
// unpaid_remark: says that a simulation took far more computing than its decisions were charged.
#pragma once

#include "sluice/report/number_text.hpp"

#include <string>

namespace sluice {

/// Whether a run that computed for `processor_s` on this machine hides the cost of its decisions: more than ten times
/// what its plans were `charged_s`, and more than a tenth of the time that its iterations take in the simulation.
///
/// The simulated clock charges for placements alone, so a slow Admission or Relief is free. Every run computes more
/// than it is charged, because it simulates. The second condition keeps published systems out: they take at most 0.5 %
/// of their iterations' time, so a machine would have to be twenty times slower than ours to show one of them.
[[nodiscard]] inline bool computes_unpaid(double processor_s, double charged_s, double simulated_s) {
  return processor_s > 10 * charged_s && processor_s > 0.1 * simulated_s;
}

/// A line for a row whose run does; empty for others. `row`: a SystemReport.
template <class Row>
[[nodiscard]] std::string unpaid_remark(const Row& row) {
  if (!computes_unpaid(row.processor_s, row.metrics.planning_s, row.metrics.busy_s)) return {};
  return "its run computed for " + time_text(row.processor_s) + " on this machine, its iterations take " +
         time_text(row.metrics.busy_s) + " and its plans are charged " + time_text(row.metrics.planning_s) +
         ": time of decisions outside placements is not simulated";
}

} // namespace sluice
