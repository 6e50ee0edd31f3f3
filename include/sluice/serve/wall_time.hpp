// SPDX-License-Identifier: Apache-2.0
// iso_time: formats a time of the wall clock for logs.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace sluice {

/// Formats milliseconds since 1970 as ISO 8601 in UTC: `2026-11-23T23:04:58.123Z`.
[[nodiscard]] inline std::string iso_time(std::int64_t milliseconds) {
  using std::chrono::days;
  const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds{milliseconds}};
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{time - day};
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text;
}

/// Returns the current time in milliseconds since 1970.
[[nodiscard]] inline std::int64_t wall_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch()).count();
}

} // namespace sluice
