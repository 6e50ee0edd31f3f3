// SPDX-License-Identifier: Apache-2.0
// write_process_metrics: metrics of this process, as Prometheus' client libraries name them (Linux).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/serve/prometheus.hpp"

#include <cstdlib>
#include <string>

namespace sluice {
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
#include "sluice/serve/process_metrics.inl.hpp"
#endif
