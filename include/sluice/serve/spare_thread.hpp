// SPDX-License-Identifier: Apache-2.0
// run_when_spare: a thread that computes when nobody else wants to (Linux), and what it has taken.
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace sluice {

/// The calling thread gets the processor when no other thread wants it: SCHED_IDLE, and nice 19 where a system has no
/// such class. A system that refuses both leaves the thread as it was.
inline void run_when_spare() {
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  (void)::setpriority(PRIO_PROCESS, thread, 19);
#ifdef SCHED_IDLE
  const sched_param none{};
  (void)::sched_setscheduler(static_cast<pid_t>(thread), SCHED_IDLE, &none);
#endif
}

/// Seconds of processor time that the calling thread has taken: of a thread of the lowest priority the wall's clock
/// tells how busy others are.
[[nodiscard]] inline double thread_seconds() {
  timespec time{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

} // namespace sluice
