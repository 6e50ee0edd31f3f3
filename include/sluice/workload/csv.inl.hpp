// SPDX-License-Identifier: Apache-2.0
// CsvReader: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/csv.hpp"
#include "sluice/workload/timestamp.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace sluice {

SLUICE_READERS_INLINE CsvColumns azure_columns() {
  return {.arrival = "TIMESTAMP", .prompt = "ContextTokens", .output = "GeneratedTokens", .dates = true};
}

SLUICE_READERS_INLINE CsvColumns burstgpt_columns() {
  return {.arrival = "Timestamp",
          .prompt = "Request tokens",
          .output = "Response tokens",
          .decimals = 0,
          .session = "Session ID",
          .took = "Elapsed time"};
}

SLUICE_READERS_INLINE Expected<CsvColumns> parse_csv_columns(std::string_view text) {
  const auto wrong = [](std::string what) {
    return Error{ErrorCode::bad_input, "--trace-columns", std::move(what), std::string{CsvColumns::expected}};
  };
  CsvColumns columns;
  std::vector<std::string_view> given;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view pair = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = pair.find('=');
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1);
    if (value.empty()) return wrong("'" + excerpt(pair) + (key == "unit" ? "' names no unit" : "' names no column"));
    for (const std::string_view other : given)
      if (other == key) return wrong(excerpt(key) + " is named twice");
    given.push_back(key);
    constexpr std::array<std::pair<std::string_view, int>, 4> units{{{"s", 0}, {"ms", 3}, {"us", 6}, {"ns", 9}}};
    constexpr std::array<std::pair<std::string_view, std::string CsvColumns::*>, 6> names{
        {{"arrival", &CsvColumns::arrival},
         {"prompt", &CsvColumns::prompt},
         {"output", &CsvColumns::output},
         {"slo-ttft", &CsvColumns::slo_ttft},
         {"slo-tbt", &CsvColumns::slo_tbt},
         {"priority", &CsvColumns::priority}}};
    const auto* const named = std::find_if(names.begin(), names.end(), [&](const auto& of) { return of.first == key; });
    if (named != names.end()) {
      columns.*named->second = value;
    } else if (key == "unit") {
      columns.decimals.reset();
      for (const auto& [name, decimals] : units)
        if (value == name) columns.decimals = decimals;
      if (!columns.decimals) return wrong("unit is '" + excerpt(value) + "'");
    } else {
      constexpr std::array<std::string_view, 7> keys{"arrival", "prompt",   "output", "slo-ttft",
                                                     "slo-tbt", "priority", "unit"};
      return wrong("there is no '" + excerpt(key) + "' of a request" + did_you_mean(key, keys));
    }
  }
  const std::array<std::pair<std::string_view, const std::string*>, 6> roles{{{"arrival", &columns.arrival},
                                                                              {"prompt", &columns.prompt},
                                                                              {"output", &columns.output},
                                                                              {"slo-ttft", &columns.slo_ttft},
                                                                              {"slo-tbt", &columns.slo_tbt},
                                                                              {"priority", &columns.priority}}};
  for (std::size_t i = 0; i < roles.size(); ++i)
    for (std::size_t j = i + 1; j < roles.size(); ++j)
      if (!roles[i].second->empty() && *roles[i].second == *roles[j].second)
        return wrong(std::string{roles[i].first} + " and " + std::string{roles[j].first} + " are both the column '" +
                     excerpt(*roles[i].second) + "'");
  return columns;
}

SLUICE_READERS_INLINE CsvReader::CsvReader(LineReader lines, CsvColumns columns)
    : records_(std::move(lines)), columns_(std::move(columns)) {}

SLUICE_READERS_INLINE Expected<CsvReader> CsvReader::open(const std::string& path, CsvColumns columns) {
  Expected<LineReader> lines = LineReader::open(path);
  if (!lines) return lines.error();
  return CsvReader{std::move(*lines), std::move(columns)};
}

SLUICE_READERS_INLINE Expected<std::optional<RequestSpec>> CsvReader::next() {
  if (width_ == 0) {
    if (Status status = read_header(); !status) return status.error();
  }
  Expected<bool> more = records_.next(cells_);
  const auto none = [this](std::size_t place) { return number(with_point(cells_[place])).value == 0; };
  const auto left_out = [&] { return none(place_[1]) || none(place_[2]); };
  for (; more && *more && cells_.size() == width_ && left_out(); more = records_.next(cells_)) {
    if (Status failed = check_failed(); !failed) return failed.error();
    ++failed_;
  }
  if (!more) return more.error();
  if (!*more) {
    if (!any_) return detail::no_request(records_.name(), failed_);
    return std::optional<RequestSpec>{};
  }
  any_ = true;
  if (cells_.size() != width_) {
    return Error{ErrorCode::bad_input, records_.where(), "the line has " + std::to_string(cells_.size()) + " columns",
                 std::to_string(width_) + ", as in the header"};
  }
  const Expected<double> seconds = seconds_since_first(cells_[place_[0]]);
  if (!seconds) return seconds.error();
  const Expected<std::int64_t> prompt = tokens(columns_.prompt, cells_[place_[1]]);
  if (!prompt) return prompt.error();
  const Expected<std::int64_t> output = tokens(columns_.output, cells_[place_[2]]);
  if (!output) return output.error();
  const Expected<Seconds> arrival = clock_.arrival(*seconds, records_.where());
  if (!arrival) return arrival.error();
  RequestSpec request{*arrival, Tokens{*prompt}, Tokens{*output}, {}};
  for (const auto& [place, time] : {std::pair{slo_place_[0], &request.slo.ttft}, {slo_place_[1], &request.slo.tbt}}) {
    if (place == absent || cells_[place].empty()) continue;
    const Expected<Seconds> slo = own_slo(cells_[place], time == &request.slo.tbt);
    if (!slo) return slo.error();
    *time = *slo;
  }
  if (priority_place_ != absent && !cells_[priority_place_].empty()) {
    const Expected<std::int32_t> priority = own_priority(cells_[priority_place_]);
    if (!priority) return priority.error();
    request.priority = *priority;
  }
  return std::optional{request};
}

SLUICE_READERS_INLINE Status CsvReader::check_failed() {
  const std::optional<Time> first = first_;
  const bool dates = dates_, zoned = zoned_;
  const Expected<double> seconds = seconds_since_first(cells_[place_[0]]);
  first_ = first; // the first request that has not failed begins the clock
  dates_ = dates;
  zoned_ = zoned;
  if (!seconds) return seconds.error();
  for (const auto& [column, place] : {std::pair{&columns_.prompt, place_[1]}, {&columns_.output, place_[2]}}) {
    if (number(with_point(cells_[place])).value == 0) continue;
    if (const Expected<std::int64_t> count = tokens(*column, cells_[place]); !count) return count.error();
  }
  return {};
}

SLUICE_READERS_INLINE Status CsvReader::read_header() {
  const Expected<bool> more = records_.next(cells_);
  if (!more) return more.error();
  if (!*more) return Error{ErrorCode::bad_input, records_.name(), "the file is empty", "a header line"};
  const std::array<std::pair<const std::string&, std::size_t&>, 3> needed{
      {{columns_.arrival, place_[0]}, {columns_.prompt, place_[1]}, {columns_.output, place_[2]}}};
  for (const auto& [name, place] : needed)
    if (Status found = find_column(name, place, true); !found) return found;
  const std::array<std::tuple<const std::string&, std::string_view, std::size_t&>, 3> own{
      {{columns_.slo_ttft, "slo_ttft_s", slo_place_[0]},
       {columns_.slo_tbt, "slo_tbt_s", slo_place_[1]},
       {columns_.priority, "priority", priority_place_}}};
  for (const auto& [name, usual, place] : own)
    if (Status found = find_column(name.empty() ? std::string{usual} : name, place, !name.empty()); !found)
      return found;
  for (const auto& [name, place] : {std::pair{&columns_.session, &session_place_}, {&columns_.took, &took_place_}})
    if (!name->empty())
      if (Status found = find_column(*name, *place, false); !found) return found;
  width_ = cells_.size();
  return {};
}

SLUICE_READERS_INLINE std::optional<Seconds> CsvReader::took() const {
  if (took_place_ == absent) return std::nullopt;
  const double value = number(with_point(cells_[took_place_])).value;
  if (!(value >= 0 && value <= 1e9)) return std::nullopt; // some of a log's durations are empty
  return Seconds{value};
}

SLUICE_READERS_INLINE Status CsvReader::find_column(const std::string& name, std::size_t& place, bool needed) const {
  std::size_t found = 0;
  for (const bool exactly : {true, false}) {
    for (std::size_t column = 0; column < cells_.size(); ++column)
      if (exactly ? cells_[column] == name : name_distance(cells_[column], name) == 0) place = column, ++found;
    if (found > 0) break;
  }
  if (found == 1) return {};
  place = absent;
  if (found == 0 && !needed) return {};
  return Error{ErrorCode::bad_input, records_.where(),
               found == 0 ? "there is no column '" + excerpt(name) + "'" + did_you_mean(name, cells_)
                          : "the column '" + excerpt(name) + "' is there " + std::to_string(found) + " times",
               "--trace-columns with three of the header's names, " + names_of(cells_)};
}

SLUICE_READERS_INLINE Expected<Seconds> CsvReader::own_slo(std::string_view cell, bool per_token) const {
  const double value = number(with_point(cell)).value;
  const Seconds most = per_token ? slowest_tbt : Seconds{1e9}; // 1e9 s are 31 years
  if (value > 0 && value <= most.count()) return Seconds{value};
  return Error{ErrorCode::bad_input, records_.where(),
               std::string{per_token ? "the TBT" : "the TTFT"} + " SLO is '" + excerpt(cell) + "'",
               "seconds above 0, at most " + (per_token ? short_time(slowest_tbt) : std::string{"1e9 s"}) +
                   ", or an empty cell"};
}

SLUICE_READERS_INLINE Expected<std::int32_t> CsvReader::own_priority(std::string_view cell) const {
  constexpr std::numeric_limits<std::int32_t> limits;
  const double value = number(with_point(cell)).value;
  if (value == std::trunc(value) && value >= limits.min() && value <= limits.max())
    return static_cast<std::int32_t>(value);
  return Error{ErrorCode::bad_input, records_.where(), "the priority is '" + excerpt(cell) + "'",
               "a whole number from " + std::to_string(limits.min()) + " to " + std::to_string(limits.max()) +
                   ", the lowest first, an empty cell, or another name for a column that holds no priorities"};
}

SLUICE_READERS_INLINE Expected<double> CsvReader::seconds_since_first(std::string_view cell) {
  const bool begins = !first_;
  const std::optional<std::int64_t> date = detail::parse_timestamp(cell);
  Time time{.whole = date};
  if (begins) dates_ = date.has_value() || columns_.dates;
  if (!dates_) time = number(with_point(cell));
  if (begins && dates_) {
    if (columns_.decimals) {
      return Error{ErrorCode::bad_input, records_.where(),
                   columns_.arrival + " is '" + excerpt(cell) + "', which has no unit",
                   "--trace-columns without unit=, which is of numbers"};
    }
    zoned_ = detail::names_zone(cell);
  }
  if (dates_ && date && detail::names_zone(cell) != zoned_) {
    return Error{ErrorCode::bad_input, records_.where(),
                 columns_.arrival + " is '" + excerpt(cell) + "', with" + (zoned_ ? "out" : "") + " a zone",
                 std::string{"all times with"} + (zoned_ ? "" : "out") + " one, as above: hours may lie between them"};
  }
  if (dates_ ? !date : !std::isfinite(time.value)) {
    const std::string sort = begins && dates_ ? "a time such as 2023-11-16T18:15:46.68Z"
                             : begins         ? "seconds as a number, or a time such as 2023-11-16T18:15:46.68Z"
                             : dates_         ? "a time such as 2023-11-16T18:15:46.68Z, as above"
                                              : "a number, as above";
    return Error{ErrorCode::bad_input, records_.where(), columns_.arrival + " is '" + excerpt(cell) + "'", sort};
  }
  if (begins) {
    // As seconds since 1970, this would be the year 5138. The log counts milliseconds or a finer unit; reading it as
    // seconds would make the run a thousand times longer.
    if (const double size = std::fabs(time.value); !dates_ && !columns_.decimals && size > 1e11) {
      const std::string unit = size > 1e17 ? "unit=ns" : size > 1e14 ? "unit=us" : "unit=ms";
      return Error{ErrorCode::bad_input, records_.where(),
                   columns_.arrival + " is '" + excerpt(cell) + "', too large for seconds since 1970",
                   unit + " in --trace-columns, or unit=s where they are seconds"};
    }
    first_ = time;
  }
  const double units = dates_ ? 1e9 : std::pow(10.0, columns_.decimals.value_or(0));
  std::int64_t since = 0;
  if (time.whole && first_->whole && !__builtin_sub_overflow(*time.whole, *first_->whole, &since))
    return static_cast<double>(since) / units;
  return (time.value - first_->value) / units;
}

SLUICE_READERS_INLINE std::string CsvReader::with_point(std::string_view cell) const {
  std::string text{cell};
  const std::size_t comma = text.find(',');
  if (comma != std::string::npos && records_.separator() != ',' && text.find('.') == std::string::npos)
    text[comma] = '.';
  return text;
}

SLUICE_READERS_INLINE CsvReader::Time CsvReader::number(const std::string& cell) {
  Time time{.whole = {}, .value = std::numeric_limits<double>::quiet_NaN()};
  const char* const end = cell.data() + cell.size();
  std::int64_t whole = 0;
  if (const auto [stop, wrong] = std::from_chars(cell.data(), end, whole); wrong == std::errc{} && stop == end)
    time.whole = whole;
  double value = 0;
  if (const auto [stop, wrong] = std::from_chars(cell.data(), end, value); wrong == std::errc{} && stop == end)
    time.value = value;
  return time;
}

SLUICE_READERS_INLINE Expected<std::int64_t> CsvReader::tokens(const std::string& column, std::string_view cell) const {
  std::int64_t count = 0;
  const auto [stop, wrong] = std::from_chars(cell.data(), cell.data() + cell.size(), count);
  std::string_view rest = cell.substr(static_cast<std::size_t>(stop - cell.data()));
  if (rest == ",0") rest = {}; // not ",000", which means thousands in some countries
  if (rest.starts_with('.')) rest.remove_prefix(std::min(rest.find_first_not_of('0', 1), rest.size()));
  if (wrong != std::errc{} || !rest.empty() || count < 1 || count > max_request_tokens) {
    return Error{ErrorCode::bad_input, records_.where(), column + " is '" + excerpt(cell) + "'",
                 "a whole number from 1 to " + std::to_string(max_request_tokens)};
  }
  return count;
}

SLUICE_READERS_INLINE std::string CsvReader::names_of(const std::vector<std::string>& cells) {
  std::string names;
  for (const std::string& cell : cells) names += (names.empty() ? "" : ", ") + excerpt(cell);
  return excerpt(names, 200);
}

} // namespace sluice
