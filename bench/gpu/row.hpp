// SPDX-License-Identifier: Apache-2.0
// Row: one line of a result file, with its repetitions. check.py has the schema.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace gpu_bench {

/// A result's distance from the host's, and how many numbers were compared.
struct Refcheck {
  double error = 0; ///< relative, in the Euclidean norm; for whole numbers and bytes, how many are wrong
  double limit = 0;
  std::int64_t cases = 0;

  [[nodiscard]] bool passed() const { return cases > 0 && error <= limit; } // a NaN never passes
};

/// The measurement of one configuration. `against` names the row (`stage/name`) that is this row's ceiling;
/// bench/gpu/run, which has all rows, fills in its value.
struct Row {
  std::string stage, name, config, unit, against;
  double amount = 0;           ///< work of one repetition, in the unit times a second; 0: samples are values
  std::vector<double> samples; ///< seconds of each repetition, or values
  Refcheck check;
  bool checks = false; ///< whether there is a reference
  std::string skipped; ///< the reason, if it was skipped
  std::string failed;  ///< the error, if it failed
};

[[nodiscard]] inline std::string quoted(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    if (c == '\n') {
      all += "\\n";
    } else if (static_cast<unsigned char>(c) >= 32) {
      all += c;
    }
  }
  return all + '"';
}
/// null for a NaN: JSON has none, and a row may not have one either.
[[nodiscard]] inline std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

/// Prints the row as one line on standard output and flushes it, so that a cut run keeps its rows. `seconds`: the row's
/// duration. Returns whether it passed.
inline bool print(const Row& row, double seconds, const std::string& repro) {
  std::vector<double> values;
  for (const double sample : row.samples) values.push_back(row.amount > 0 ? row.amount / sample : sample);
  std::sort(values.begin(), values.end());
  std::string status = "passed", reason;
  if (!row.skipped.empty()) {
    status = "skipped", reason = row.skipped;
  } else if (!row.failed.empty()) {
    status = "failed", reason = row.failed;
  } else if (row.checks && !row.check.passed()) {
    status = "failed", reason = "off by " + number(row.check.error) + ", at most " + number(row.check.limit) +
                                " is right, of " + std::to_string(row.check.cases) + " numbers";
  }
  const bool any = !values.empty() && row.skipped.empty();
  const auto of = [&](std::size_t i) { return any ? number(values[i]) : std::string{"null"}; };
  const std::string check = row.checks && row.skipped.empty()
                                ? "{\"error\": " + number(row.check.error) + ", \"limit\": " + number(row.check.limit) +
                                      ", \"cases\": " + std::to_string(row.check.cases) + "}"
                                : "null";
  const std::int64_t n = row.skipped.empty() ? std::max<std::int64_t>(row.check.cases, any ? 1 : 0) : 0;
  std::printf(
      "{\"stage\": %s, \"name\": %s, \"config\": %s, \"n\": %lld, \"value\": %s, \"unit\": %s, \"against\": %s, "
      "\"min\": %s, \"median\": %s, \"max\": %s, \"reps\": %zu, \"refcheck\": %s, \"status\": %s, \"seconds\": %s, "
      "\"repro\": %s, \"reason\": %s}\n",
      quoted(row.stage).c_str(), quoted(row.name).c_str(), quoted(row.config).c_str(), static_cast<long long>(n),
      of(values.size() / 2).c_str(), quoted(row.unit).c_str(), quoted(row.against).c_str(), of(0).c_str(),
      of(values.size() / 2).c_str(), of(values.empty() ? 0 : values.size() - 1).c_str(), any ? values.size() : 0,
      check.c_str(), quoted(status).c_str(), number(seconds).c_str(), quoted(repro).c_str(), quoted(reason).c_str());
  std::fflush(stdout);
  return status != "failed";
}

} // namespace gpu_bench
