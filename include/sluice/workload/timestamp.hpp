// SPDX-License-Identifier: Apache-2.0
// parse_timestamp: reads dates with times, as logs write them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

namespace detail {

/// Days from 1970-01-01 in the proleptic Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms").
constexpr std::int64_t days_from_civil(std::int64_t year, std::int64_t month, std::int64_t day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = year / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const std::int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

/// Removes exactly `digits` decimal digits from the beginning of `text`; returns -1 if there are fewer.
constexpr std::int64_t take_digits(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return -1;
  std::int64_t value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}

constexpr bool take_character(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

/// Parses "2023-11-16 18:15:46.6805900" (ISO 8601 with a whole date) to nanoseconds since 1970. 'T' or a blank precedes
/// the time. Seconds are optional, and so are up to nine decimals after a point or a comma, and "Z" or an offset such
/// as "+00:00", "+0000" or "+00" at the end. Whole nanoseconds, since a double cannot hold 100 ns ticks of current
/// dates.
constexpr std::optional<std::int64_t> parse_timestamp(std::string_view text) {
  const std::int64_t year = take_digits(text, 4);
  if (year < 1970 || year > 2200 || !take_character(text, "-")) return std::nullopt;
  const std::int64_t month = take_digits(text, 2);
  if (month < 1 || month > 12 || !take_character(text, "-")) return std::nullopt;
  const std::int64_t day = take_digits(text, 2);
  constexpr std::array<int, 12> days{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  const int last = days[static_cast<std::size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
  if (day < 1 || day > last || !take_character(text, " T")) return std::nullopt;
  const std::int64_t hour = take_digits(text, 2);
  if (hour < 0 || hour > 23 || !take_character(text, ":")) return std::nullopt;
  const std::int64_t minute = take_digits(text, 2);
  if (minute < 0 || minute > 59) return std::nullopt;
  const bool seconds = take_character(text, ":");
  const std::int64_t second = seconds ? take_digits(text, 2) : 0;
  if (second < 0 || second > 60) return std::nullopt;
  std::int64_t nanoseconds = 0;
  if (seconds && take_character(text, ".,")) {
    std::int64_t unit = 100'000'000;
    bool any = false;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
      if (unit == 0) return std::nullopt;
      nanoseconds += (text.front() - '0') * unit;
      unit /= 10;
      any = true;
      text.remove_prefix(1);
    }
    if (!any) return std::nullopt;
  }
  std::int64_t offset_minutes = 0;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    const std::int64_t sign = text.front() == '-' ? -1 : 1;
    text.remove_prefix(1);
    const std::int64_t hours = take_digits(text, 2);
    if (hours < 0 || hours > 14) return std::nullopt;
    const bool colon = take_character(text, ":");
    const std::int64_t minutes = text.empty() && !colon ? 0 : take_digits(text, 2);
    if (minutes < 0 || minutes > 59) return std::nullopt;
    offset_minutes = sign * (hours * 60 + minutes);
  } else {
    take_character(text, "Z");
  }
  if (!text.empty()) return std::nullopt;
  const std::int64_t minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
  return (minutes * 60 + second) * 1'000'000'000 + nanoseconds;
}

/// Returns whether the time names its zone; otherwise it is UTC.
constexpr bool names_zone(std::string_view timestamp) {
  constexpr std::size_t date = std::string_view{"2023-11-16"}.size();
  return timestamp.size() > date && timestamp.find_first_of("Z+-", date) != std::string_view::npos;
}

} // namespace detail

} // namespace sluice
