// SPDX-License-Identifier: Apache-2.0
// add_trace_flags: adds the flags that describe a trace file, the same in every program that reads one.
#pragma once

#include "shared/flags.hpp"

/// `Options` has trace, format and trace_columns, which find_trace (workload/nlohmann/open_trace.hpp) reads. `what`
/// describes how the program uses a trace.
template <class Options>
void add_trace_flags(Flags& flags, Options& options, const std::string& what) {
  flags.app().add_option("--trace", options.trace, what);
  flags.app().add_option(
      "--format", options.format,
      "its format: azure, mooncake, orbitflow, vllm, load, tokens, agents or csv (default: detected)");
  flags.app().add_option(
      "--trace-columns", options.trace_columns,
      "for a CSV: its columns, arrival=NAME,prompt=NAME,output=NAME, and unit=ms, us or ns of "
      "arrivals that are numbers but not seconds (default: arrival, prompt and output; times may be dates)");
}

/// Returns the flag that describes how to read a trace and was given without a trace, if any.
template <class Options>
[[nodiscard]] const char* read_without_trace(const Options& options) {
  if (!options.trace.empty()) return nullptr;
  if (!options.format.empty()) return "--format";
  return options.trace_columns.empty() ? nullptr : "--trace-columns";
}
