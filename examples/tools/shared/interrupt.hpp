// SPDX-License-Identifier: Apache-2.0
// Interrupts: Ctrl-C, or a scheduler's SIGTERM, ends a program that has results with those that are finished.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <initializer_list>

namespace sluice {

namespace detail {
inline std::atomic<int> interrupted_by{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

/// The next signal ends the process at once, as if nobody handled it.
inline void on_interrupt(int number) {
  interrupted_by = number;
  for (const int one : {SIGINT, SIGTERM}) ::signal(one, SIG_DFL);
}
} // namespace detail

/// From here on the first SIGINT or SIGTERM only says so. Called when the first run is about to begin: before, there is
/// nothing to keep, and a signal ends the program. A signal that the program was started to ignore (nohup, a shell's
/// background) stays ignored.
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

/// The signal's number; 0: there was none.
[[nodiscard]] inline int interrupted() { return detail::interrupted_by; }
/// As if this process had been told what another was.
inline void interrupt_as(int number) { detail::interrupted_by = number; }
/// What a shell shows of a program that the signal ended: 130 of SIGINT, 143 of SIGTERM.
[[nodiscard]] inline int interrupted_code() { return 128 + interrupted(); }

/// Thrown where a run is dropped. Not an error: nothing is wrong with the run, and nobody is told of one.
struct Dropped {};

/// Called by a run between its steps, where nothing is half done.
inline void drop_if_interrupted() {
  if (interrupted() != 0) throw Dropped{};
}

/// How many of the runs that were asked for have finished.
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
