// SPDX-License-Identifier: Apache-2.0
// add_trace_flags: how a trace file is named on a command line, the same in every program that reads one.
#pragma once

#include "shared/flags.hpp"

/// `Options` has trace, format and trace_columns; find_trace (workload/nlohmann/open_trace.hpp) takes the three. `what`
/// is what the program does with a trace.
template <class Options>
void add_trace_flags(Flags& flags, Options& options, const std::string& what) {
  flags.app().add_option("--trace", options.trace, what);
  flags.app().add_option("--format", options.format,
                         "its format: azure, mooncake, orbitflow, vllm or csv (default: found out)");
  flags.app().add_option(
      "--trace-columns", options.trace_columns,
      "of a CSV: which columns say what, arrival=NAME,prompt=NAME,output=NAME, and unit=ms, us or ns of "
      "arrivals that are numbers but not seconds (default: arrival, prompt and output; times may be dates)");
}

/// Flags that say how a trace is read, without one.
template <class Options>
[[nodiscard]] const char* read_without_trace(const Options& options) {
  if (!options.trace.empty()) return nullptr;
  if (!options.format.empty()) return "--format";
  return options.trace_columns.empty() ? nullptr : "--trace-columns";
}
