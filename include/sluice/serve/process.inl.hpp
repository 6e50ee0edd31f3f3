// SPDX-License-Identifier: Apache-2.0
// write_process_metrics: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/process.hpp"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>

namespace sluice::detail {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
  void operator()(DIR* folder) const { closedir(folder); }
};

/// Returns the content of a file in /proc; empty if it cannot be read.
[[nodiscard]] inline std::string proc_text(const char* path) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path, "re"));
  if (file == nullptr) return {};
  std::string text;
  char piece[4096];
  for (std::size_t n; (n = std::fread(piece, 1, sizeof piece, file.get())) > 0;) text.append(piece, n);
  return text;
}

SLUICE_SERVER_INLINE double stat_field(const std::string& stat, int number) {
  std::size_t at = stat.rfind(')'); // the name may contain spaces
  for (int field = 2; field < number && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::atof(stat.c_str() + at + 1);
}

SLUICE_SERVER_INLINE int open_files() {
  const std::unique_ptr<DIR, CloseFile> folder(opendir("/proc/self/fd"));
  if (folder == nullptr) return 0;
  int count = -1;
  while (const dirent* const entry = readdir(folder.get())) // NOLINT(concurrency-mt-unsafe): a folder of its own
    if (entry->d_name[0] != '.') ++count;
  return count;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_SERVER_INLINE void write_process_metrics(PrometheusWriter& to) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  const std::string stat = detail::proc_text("/proc/self/stat");
  const std::string machine = detail::proc_text("/proc/stat");
  const std::size_t boot = machine.rfind("\nbtime ");
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  to.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
             seconds(usage.ru_utime) + seconds(usage.ru_stime));
  to.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", detail::stat_field(stat, 23));
  to.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", detail::stat_field(stat, 24) * page);
  if (boot != std::string::npos)
    to.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
             std::atof(machine.c_str() + boot + std::strlen("\nbtime ")) + detail::stat_field(stat, 22) / ticks);
  to.gauge("process_open_fds", "Number of open file descriptors.", detail::open_files());
  to.gauge("process_max_fds", "Maximum number of open file descriptors.", static_cast<double>(files.rlim_cur));
  to.gauge("process_threads", "Number of threads.", detail::stat_field(stat, 20));
}

} // namespace sluice
