// SPDX-License-Identifier: Apache-2.0
// Stopwatch: wall time since it was started.
#pragma once

#include "sluice/core/units.hpp"

#include <ctime>

namespace sluice {

/// Wall time since it was made. Monotonic where the platform has such a clock.
///
/// Not std::chrono: in GCC 12 that header alone costs every user of an engine 0.4 s of compile time (it brings
/// iostreams), and what is wanted of it is one subtraction.
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
