// SPDX-License-Identifier: Apache-2.0
// run_when_spare: gives a thread the lowest priority (Linux); thread_seconds: returns a thread's processor time.
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace sluice {

/// Makes the calling thread run only when no other thread needs the processor: SCHED_IDLE, or nice 19 on systems
/// without that class. If the system refuses both, nothing changes.
inline void run_when_spare() {
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  (void)::setpriority(PRIO_PROCESS, thread, 19);
#ifdef SCHED_IDLE
  const sched_param none{};
  (void)::sched_setscheduler(static_cast<pid_t>(thread), SCHED_IDLE, &none);
#endif
}

/// Returns the calling thread's processor time in seconds. The wall time of a thread with the lowest priority mostly
/// measures the load of other threads.
[[nodiscard]] inline double thread_seconds() {
  timespec time{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

} // namespace sluice
