// SPDX-License-Identifier: Apache-2.0
// Stopwatch: wall time since its construction. Judged time: what judging plans has taken on a reference core, counted
// in calls, so that every machine counts the same.
#pragma once

#include "sluice/core/interrupt.hpp"
#include "sluice/core/units.hpp"

#include <cstddef>
#include <cstdint>
#include <ctime>

namespace sluice {

/// Wall time since construction. Monotonic if the platform has such a clock.
///
/// Not std::chrono: GCC 12's header includes iostreams and adds 0.4 s to the compile time of every engine, for one
/// subtraction.
class Stopwatch {
 public:
  Stopwatch() : begin_(read()) {}
  [[nodiscard]] Seconds elapsed() const { return read() - begin_; }

 private:
  static Seconds read() {
    std::timespec time{};
#ifdef CLOCK_MONOTONIC
    clock_gettime(CLOCK_MONOTONIC, &time);
#else
    (void)std::timespec_get(&time, TIME_UTC);
#endif
    return Seconds{static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec)};
  }

  Seconds begin_;
};

namespace detail {
inline constinit thread_local std::int64_t judged_ns = 0;
} // namespace detail

/// Nanoseconds that this thread has been charged so far. A caller takes the difference over a call.
[[nodiscard]] inline std::int64_t judged_ns() { return detail::judged_ns; }

/// What one judgement takes: so much by itself, and for each request.
struct JudgedCost {
  std::int64_t call_ns, request_ns;
};

/// bench_trial's times of 32 layers, the means of its rules on one core of an Intel Xeon (its counter `charged_ns`
/// shows how far each is off).
struct JudgedCosts {
  static constexpr JudgedCost fits{40, 21};      ///< memory, each request's layers alone
  static constexpr JudgedCost fits_alike{45, 8}; ///< memory, one residency for all
  static constexpr JudgedCost step{350, 21};     ///< an iteration's time
  static constexpr JudgedCost window{100, 20};   ///< how long a placement's growing KV fits
  static constexpr JudgedCost slo_step{10, 1};   ///< one step of a window of SLO checks
};

/// Nanoseconds of one search node, as a planner says its effort (InStep::per_effort).
inline constexpr std::int64_t ns_per_node = 2000;

/// Charges one judgement of a plan of `requests`, and drops the run after an interrupt: a policy may judge plans for
/// minutes within one call.
inline void judge(JudgedCost cost, std::size_t requests) {
  drop_if_interrupted();
  detail::judged_ns += cost.call_ns + cost.request_ns * static_cast<std::int64_t>(requests);
}

} // namespace sluice
