// SPDX-License-Identifier: Apache-2.0
// Interrupts: after Ctrl-C or a scheduler's SIGTERM, a program prints its finished results and ends.
#pragma once

#include "sluice/core/interrupt.hpp"

#include <signal.h>

#include <cstddef>
#include <initializer_list>

namespace sluice {

namespace detail {
/// Stores the signal and restores the default action, so that the next signal ends the process at once.
inline void on_interrupt(int number) {
  interrupted_by = number;
  for (const int one : {SIGINT, SIGTERM}) ::signal(one, SIG_DFL);
}
} // namespace detail

/// After this call, the first SIGINT or SIGTERM only sets a flag. Call it before the first run: until then there are no
/// results, and a signal ends the program. A signal that was ignored when the program started (nohup, a shell's
/// background job) stays ignored.
inline void heed_interrupts() {
  for (const int one : {SIGINT, SIGTERM}) {
    struct sigaction old = {}, action = {};
    if (sigaction(one, nullptr, &old) != 0 || old.sa_handler != SIG_DFL) continue;
    action.sa_handler = detail::on_interrupt;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(one, &action, nullptr);
  }
}

/// Returns the exit code that shells show for a program that the signal ended: 130 for SIGINT, 143 for SIGTERM.
[[nodiscard]] inline int interrupted_code() { return 128 + interrupted(); }

/// The number of requested runs that have finished.
struct RunCount {
  std::size_t finished = 0, of = 0;

  [[nodiscard]] bool whole() const { return finished == of; }
  RunCount& operator+=(const RunCount& other) {
    finished += other.finished;
    of += other.of;
    return *this;
  }
};

} // namespace sluice
