// SPDX-License-Identifier: Apache-2.0
// read_all_reduce: reads measured all-reduces from CSV.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/policy/cost/measured_grid.hpp"
#include "sluice/workload/line_reader.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {

/// Seconds of an all-reduce by bytes: a CSV file with the header `bytes,time_us` and ascending bytes, which are two
/// columns of what nccl-tests' all_reduce_perf prints.
inline Expected<MeasuredLine> read_all_reduce(Expected<LineReader> lines) {
  if (!lines) return lines.error();
  const auto bad = [&](const std::string& what, const char* expected) {
    return Error{ErrorCode::bad_input, lines->where(), what, expected};
  };
  constexpr std::string_view header = "bytes,time_us";
  const Expected<std::optional<std::string_view>> first = lines->next();
  if (!first) return first.error();
  if (!*first) return Error{ErrorCode::bad_input, lines->name(), "the file is empty", "the header 'bytes,time_us'"};
  if (**first != header) return bad("the header is '" + excerpt(**first) + "'", "'bytes,time_us'");
  std::vector<MeasuredLine::Point> points;
  for (;;) {
    const Expected<std::optional<std::string_view>> line = lines->next();
    if (!line) return line.error();
    if (!*line) break;
    const std::string_view row = **line;
    const char* const end = row.data() + row.size();
    MeasuredLine::Point point;
    const auto [comma, no_bytes] = std::from_chars(row.data(), end, point.at);
    if (no_bytes != std::errc{} || comma == end || *comma != ',' || point.at < 1)
      return bad("the row is '" + excerpt(row) + "'", "bytes of at least 1, a comma, and microseconds");
    double time_us = 0;
    const auto [last, no_time] = std::from_chars(comma + 1, end, time_us);
    if (no_time != std::errc{} || last != end || !std::isfinite(time_us) || time_us <= 0 || time_us > 1e9)
      return bad("the time is '" + excerpt(row.substr(static_cast<std::size_t>(comma + 1 - row.data()))) + "'",
                 "microseconds above 0 and at most 1e9");
    if (!points.empty() && point.at <= points.back().at)
      return bad(std::to_string(point.at) + " bytes follow " + std::to_string(points.back().at), "ascending bytes");
    point.seconds = time_us * 1e-6;
    points.push_back(point);
  }
  if (points.empty()) return bad("there is no row after the header", "measured times");
  return MeasuredLine{std::move(points)};
}

/// From a file.
inline Expected<MeasuredLine> read_all_reduce(const std::string& path) {
  return read_all_reduce(LineReader::open(path));
}

} // namespace sluice
