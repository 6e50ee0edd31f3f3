// SPDX-License-Identifier: Apache-2.0
// TraceOptions: the flags that describe how to read a trace file, the same in every program that reads one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

struct TraceOptions {
  std::string trace, format, trace_columns;
  std::optional<std::int64_t> trace_block, benchmark;

  /// Returns the flag that describes how to read a trace and was given without a trace, if any.
  [[nodiscard]] const char* read_without_trace() const {
    if (!trace.empty()) return nullptr;
    if (!format.empty()) return "--format";
    if (!trace_columns.empty()) return "--trace-columns";
    if (trace_block) return "--trace-block";
    return benchmark ? "--benchmark" : nullptr;
  }
};
