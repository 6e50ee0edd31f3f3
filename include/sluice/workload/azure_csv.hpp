// SPDX-License-Identifier: Apache-2.0
// AzureCsvReader: the request logs of the Azure Public Dataset.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/reader.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
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

/// Takes exactly `digits` decimal digits off the front of `text`; -1 where there are fewer.
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

/// Nanoseconds since 1970 of "2023-11-16 18:15:46.6805900" with up to nine decimals, 'T' or a blank before the time,
/// and perhaps "Z" or an offset such as "+00:00" after the time. Whole nanoseconds, since a double cannot hold 100 ns
/// ticks of today's date.
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
  if (minute < 0 || minute > 59 || !take_character(text, ":")) return std::nullopt;
  const std::int64_t second = take_digits(text, 2);
  if (second < 0 || second > 60) return std::nullopt;
  std::int64_t nanoseconds = 0;
  if (take_character(text, ".")) {
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
    if (hours < 0 || hours > 14 || !take_character(text, ":")) return std::nullopt;
    const std::int64_t minutes = take_digits(text, 2);
    if (minutes < 0 || minutes > 59) return std::nullopt;
    offset_minutes = sign * (hours * 60 + minutes);
  } else {
    take_character(text, "Z");
  }
  if (!text.empty()) return std::nullopt;
  const std::int64_t minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
  return (minutes * 60 + second) * 1'000'000'000 + nanoseconds;
}

} // namespace detail

/// AzureLLMInferenceTrace (Azure Public Dataset, 2023 and 2024; Patel et al., Splitwise, ISCA 2024): a header line with
/// the columns TIMESTAMP, ContextTokens and GeneratedTokens in any order, then one request a line.
class AzureCsvReader {
 public:
  explicit AzureCsvReader(LineReader lines) : lines_(std::move(lines)) {}

  static Expected<AzureCsvReader> open(const std::string& path) {
    Expected<LineReader> lines = LineReader::open(path);
    if (!lines) return lines.error();
    return AzureCsvReader{std::move(*lines)};
  }

  Expected<std::optional<RequestSpec>> next() {
    if (columns_ == 0) {
      if (Status status = read_header(); !status) return status.error();
    }
    const Expected<std::optional<std::string_view>> line = lines_.next();
    if (!line) return line.error();
    if (!*line) {
      if (!any_) return Error{ErrorCode::bad_input, lines_.name(), "the trace holds no request", "at least one line"};
      return std::optional<RequestSpec>{};
    }
    any_ = true;
    return parse(**line);
  }

 private:
  static constexpr std::array<std::string_view, 3> names{"TIMESTAMP", "ContextTokens", "GeneratedTokens"};

  Status read_header() {
    const Expected<std::optional<std::string_view>> line = lines_.next();
    if (!line) return line.error();
    if (!*line) return Error{ErrorCode::bad_input, lines_.name(), "the file is empty", expected_header()};
    std::array<bool, 3> found{};
    std::string_view rest = **line;
    for (bool more = true; more; ++columns_) {
      const std::string_view cell = take_cell(rest, more);
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (cell != names[i]) continue;
        if (found[i]) {
          return Error{ErrorCode::bad_input, lines_.where(), "the column " + std::string{cell} + " appears twice",
                       expected_header()};
        }
        found[i] = true;
        column_[i] = columns_;
      }
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (found[i]) continue;
      return Error{ErrorCode::bad_input, lines_.where(), "the column " + std::string{names[i]} + " is missing",
                   expected_header()};
    }
    return {};
  }

  Expected<std::optional<RequestSpec>> parse(std::string_view line) {
    std::array<std::string_view, 3> cells;
    std::size_t count = 0;
    for (bool more = true; more; ++count) {
      const std::string_view cell = take_cell(line, more);
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (column_[i] == count) cells[i] = cell;
      }
    }
    if (count != columns_) {
      return Error{ErrorCode::bad_input, lines_.where(), "the line has " + std::to_string(count) + " columns",
                   std::to_string(columns_) + ", as in the header"};
    }
    const std::optional<std::int64_t> time = detail::parse_timestamp(cells[0]);
    if (!time) {
      return Error{ErrorCode::bad_input, lines_.where(), "TIMESTAMP is '" + excerpt(cells[0]) + "'",
                   "a time such as 2023-11-16 18:15:46.6805900"};
    }
    const Expected<std::int64_t> prompt = parse_tokens(1, cells[1]);
    if (!prompt) return prompt.error();
    const Expected<std::int64_t> output = parse_tokens(2, cells[2]);
    if (!output) return output.error();
    if (!first_) first_ = *time;
    // Relative to the first arrival in whole nanoseconds: exact where seconds since 1970 in a double are not.
    const Expected<Seconds> arrival = clock_.arrival(static_cast<double>(*time - *first_) / 1e9, lines_.where());
    if (!arrival) return arrival.error();
    return std::optional{RequestSpec{*arrival, Tokens{*prompt}, Tokens{*output}, {}}};
  }

  [[nodiscard]] Expected<std::int64_t> parse_tokens(std::size_t name, std::string_view cell) const {
    std::int64_t tokens = 0;
    const auto [stopped, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), tokens);
    if (failure != std::errc{} || stopped != cell.data() + cell.size() || tokens < 1 || tokens > max_request_tokens) {
      return Error{ErrorCode::bad_input, lines_.where(), std::string{names[name]} + " is '" + excerpt(cell) + "'",
                   "a whole number from 1 to " + std::to_string(max_request_tokens)};
    }
    return tokens;
  }

  static std::string_view take_cell(std::string_view& line, bool& more) {
    const std::size_t comma = line.find(',');
    more = comma != std::string_view::npos;
    const std::string_view cell = line.substr(0, comma);
    line.remove_prefix(more ? comma + 1 : line.size());
    return cell;
  }
  static std::string expected_header() { return "the header TIMESTAMP,ContextTokens,GeneratedTokens"; }

  LineReader lines_;
  detail::ArrivalClock clock_;
  std::optional<std::int64_t> first_;
  std::array<std::size_t, 3> column_{};
  std::size_t columns_ = 0;
  bool any_ = false;
};

static_assert(TraceReader<AzureCsvReader>);

} // namespace sluice
