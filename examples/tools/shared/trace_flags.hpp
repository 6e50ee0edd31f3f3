// SPDX-License-Identifier: Apache-2.0
// add_trace_flags, add_arrival_flags: add the flags that describe a trace file and when requests arrive, the same in
// every program that serves one.
#pragma once

#include "sluice/workload/nlohmann/open_trace.hpp"

#include "shared/flags.hpp"
#include "shared/trace_options.hpp"

#include <optional>
#include <string>

/// `what` describes how the program uses a trace.
inline void add_trace_flags(Flags& flags, TraceOptions& options, const std::string& what) {
  flags.app().add_option("--trace", options.trace, what);
  flags.app().add_option("--format", options.format,
                         "its format: " + sluice::trace_format_names() +
                             " (default: detected; sluice-compare --list formats explains "
                             "them)");
  flags.app().add_option(
      "--trace-columns", options.trace_columns,
      "for a CSV: its columns, arrival=NAME,prompt=NAME,output=NAME, and unit=ms, us or ns of "
      "arrivals that are numbers but not seconds (default: arrival, prompt and output; times may be dates)");
  flags.whole("--trace-block", options.trace_block, 1, 1'000'000,
              "tokens that each of the trace's hash_ids stands for (default: 512, or 16 for bailian)");
  flags.whole("--benchmark", options.benchmark, 1, 1'000'000,
              "of a load generator's report with several benchmarks, the one to read, from 1");
}

/// Adds the flags that say when a workload's requests arrive.
inline void add_arrival_flags(Flags& flags, double& rate_scale, std::optional<std::string>& sessions) {
  flags.number("--rate-scale", rate_scale, 0, false, "divide the arrival times by this (default: 1)");
  flags.app().add_option(
      "--sessions", sessions,
      "closed: a session's next request arrives when the one before is answered and its delay is over; open: "
      "at its recorded time (default: closed)");
}

/// Finds the trace that the flags describe.
inline sluice::Expected<sluice::TraceFile> find_trace(const TraceOptions& options) {
  return sluice::find_trace(options.trace, {.format = options.format,
                                            .columns = options.trace_columns,
                                            .block = options.trace_block,
                                            .benchmark = options.benchmark});
}
