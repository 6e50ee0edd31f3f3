// SPDX-License-Identifier: Apache-2.0
// Common end of two runs: how long refused and unfinished requests wait when systems are compared.
#pragma once

#include "sluice/report/observer/metrics.hpp"

#include <algorithm>

namespace sluice {

/// Returns the end, in s, of the run that served more requests, or the earlier one of both if they served as many. The
/// runs are of one workload and seed. If one has served all, a request that the other refused waits until it is served.
/// Rejected: the later end, since a run that starves one request for hours would lengthen the other's waits
/// (docs/metrics.md).
[[nodiscard]] inline double common_end(const Metrics& a, const Metrics& b) {
  if (a.served != b.served) return a.served > b.served ? a.end_s : b.end_s;
  return std::min(a.end_s, b.end_s);
}

/// Returns the mean E2E of all, in s, if refused and unfinished requests wait until `end_s` of another run. If the own
/// run ends later, they wait until then, as in `mean_e2e_all_s`.
[[nodiscard]] inline double mean_e2e_all_until(const Metrics& m, double end_s) {
  const auto left = static_cast<double>(m.refused + m.unfinished);
  if (left == 0 || !(end_s > m.end_s)) return m.mean_e2e_all_s; // also of runs without an end
  return m.mean_e2e_all_s + (end_s - m.end_s) * left / static_cast<double>(m.requests - m.cancelled);
}

} // namespace sluice
