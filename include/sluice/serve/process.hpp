// SPDX-License-Identifier: Apache-2.0
// This process and its threads, as Linux has them. run_when_spare: gives a thread the lowest priority. thread_seconds:
// returns its processor time. write_process_metrics: metrics of this process, as Prometheus' client libraries name
// them.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/prometheus.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <string>

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

namespace detail {

/// Returns field `number` of /proc/self/stat, counted from 1 as in proc(5); only for fields after the program's name.
[[nodiscard]] double stat_field(const std::string& stat, int number);
/// Returns the number of open files, excluding the one used for counting.
[[nodiscard]] int open_files();

} // namespace detail

/// `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`, `process_open_fds`,
/// `process_max_fds`, `process_start_time_seconds` and `process_threads`. Takes about 50 us, more with many open files.
void write_process_metrics(PrometheusWriter& to);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/process.inl.hpp"
#endif
