// SPDX-License-Identifier: Apache-2.0
// Stopwatch: wall time since its construction.
#pragma once

#include "sluice/core/units.hpp"

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

} // namespace sluice
