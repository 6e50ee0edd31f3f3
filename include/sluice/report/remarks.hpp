// SPDX-License-Identifier: Apache-2.0
// Remarks on rows whose simulated times may be wrong. BeyondReport: how many of a row's iterations a measured profile
// extrapolates to. UnpaidReport: decisions that computed for long and were charged next to nothing on the simulated
// clock.
#pragma once

#include "sluice/report/number_text.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace sluice {

/// Counts of the iterations, over all seeds, and the size that lies furthest beyond the measured points.
struct BeyondReport {
  std::int64_t iterations = 0;
  std::int64_t beyond = 0;
  std::string axis{}; ///< "batch"; empty: every iteration is within the grid
  double size = 0;
  double last = 0; ///< the largest measured on that axis

  [[nodiscard]] double share() const {
    return iterations > 0 ? static_cast<double>(beyond) / static_cast<double>(iterations) : 0.0;
  }
  /// "batch 2048, the grid ends at 256".
  [[nodiscard]] std::string largest() const {
    return axis + " " + tidy_text(size) + ", the grid ends at " + tidy_text(last);
  }
  void add(const BeyondReport& other) {
    iterations += other.iterations;
    beyond += other.beyond;
    if (!other.axis.empty() && (axis.empty() || other.size * last > size * other.last))
      axis = other.axis, size = other.size, last = other.last;
  }
};

/// "12 % of iterations extrapolate beyond the profile's grid (largest: batch 2048, the grid ends at 256)", of all rows
/// together; empty if none does. `rows`: pointers to SystemReports.
template <class Rows>
[[nodiscard]] std::string beyond_remark(const Rows& rows) {
  BeyondReport all;
  double most = 0;
  std::string whose;
  for (const auto* row : rows) {
    if (!row->beyond_grid) continue;
    all.add(*row->beyond_grid);
    if (row->beyond_grid->share() > most) most = row->beyond_grid->share(), whose = row->name;
  }
  if (all.beyond == 0) return {};
  return percent_text(all.share()) + " % of iterations extrapolate beyond the profile's grid" +
         (percent_text(most) != percent_text(all.share()) ? ", of " + whose + "'s " + percent_text(most) + " %" : "") +
         " (largest: " + all.largest() + ")";
}

/// Whether a decision that computed for `processor_s` on this machine, before an iteration of `step_s`, hides a cost:
/// it was charged less than a tenth, and it took more than half of the iteration and more than 5 ms.
///
/// The simulated clock charges for placements alone, so a slow Admission or Relief is free. The 5 ms keep the line away
/// from published systems on slow machines: without their charged plans they decide in microseconds, and a machine
/// whose plans take ten times longer than they are charged would have to take 5 ms for one, too.
[[nodiscard]] inline bool is_unpaid(double processor_s, double charged_s, double step_s) {
  return processor_s > std::max({5e-3, 0.5 * step_s, 10 * charged_s});
}

/// The decisions of a row's runs for which `is_unpaid` holds.
struct UnpaidReport {
  std::int64_t decisions = 0;
  double processor_s = 0; ///< all together

  void add(const UnpaidReport& other) {
    decisions += other.decisions;
    processor_s += other.processor_s;
  }
  /// A line for the row; empty for fewer than three, since a page that is read from disk can take as long.
  [[nodiscard]] std::string remark() const {
    if (decisions < 3) return {};
    return std::to_string(decisions) + " decisions computed for " +
           time_text(processor_s / static_cast<double>(decisions)) +
           " each on this machine, more than ten times what they are charged: the simulated clock charges for "
           "placements "
           "alone";
  }
};

/// Measures the processor time between two calls by the wall clock, which is read in 25 ns, and reads the thread's
/// clock, which takes ten times longer, only if much wall time has passed, and every 64th time.
class LapClock {
 public:
  /// Returns the processor time since the last call; 0 if less than 5 ms of wall time have passed. The wall time of
  /// shorter laps since the thread's clock was last read is subtracted, so a long lap may come out too short by what
  /// those waited. `wall_s`: the wall clock; `thread_s()`: the thread's.
  template <class ThreadSeconds>
  double lap(double wall_s, ThreadSeconds&& thread_s) {
    const double passed = wall_s - wall_s_;
    wall_s_ = wall_s;
    if (passed < 5e-3 && ++unread_ < 64) {
      short_s_ += passed;
      return 0;
    }
    const double now = thread_s(), spent = now - thread_s_ - short_s_;
    const bool first = thread_s_ < 0;
    thread_s_ = now;
    short_s_ = 0;
    unread_ = 0;
    return first || passed < 5e-3 ? 0 : std::max(0.0, spent);
  }

 private:
  double wall_s_ = 0;
  double thread_s_ = -1; ///< when it was last read; below 0: never
  double short_s_ = 0;   ///< wall time of the laps since then
  int unread_ = 0;
};

} // namespace sluice
