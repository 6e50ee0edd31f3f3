// SPDX-License-Identifier: Apache-2.0
// Row: one line of a result file, and how often it was timed. check.py has the schema; this writes it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace gpu_bench {

/// How far a result was from the host's, and of how many numbers that was asked.
struct Refcheck {
  double error = 0; ///< relative, in the Euclidean norm; of whole numbers and bytes, how many are wrong
  double limit = 0;
  std::int64_t cases = 0;

  [[nodiscard]] bool passed() const { return cases > 0 && error <= limit; } // no number passes nothing
};

/// What is measured of one configuration. `against` names the row (`stage/name`) that is this row's ceiling:
/// bench/gpu/run has all rows and puts its value in.
struct Row {
  std::string stage, name, config, unit, against;
  double amount = 0;           ///< what one repetition does, in the unit times a second; 0: samples are values
  std::vector<double> samples; ///< seconds of each repetition, or values
  Refcheck check;
  bool checks = false; ///< whether there was anything to compare with
  std::string skipped; ///< why there is nothing, if there is nothing
  std::string failed;  ///< what went wrong, if something did
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
/// null where there is no number: JSON has no NaN, and a row may not have one either.
[[nodiscard]] inline std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

/// The row as one line on standard output, at once: what comes before a cut is kept. `seconds`: that the row took.
/// Returns whether it passed.
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
