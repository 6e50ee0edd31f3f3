// SPDX-License-Identifier: Apache-2.0
// read_served_tables: reads what a bundle has beside its kernels: unequal decodes, experts, and steps with and without
// graphs.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/policy/cost/measured_grid.hpp"
#include "sluice/policy/cost/served_tables.hpp"
#include "sluice/workload/line_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {

namespace detail {

/// A CSV file of which some columns are read, by name: one of text, if `text` names one, and numbers.
class NamedCsv {
 public:
  static Expected<NamedCsv> open(Expected<LineReader> lines, std::string_view text,
                                 const std::vector<std::string_view>& numbers) {
    if (!lines) return lines.error();
    NamedCsv csv{CsvRecords(std::move(*lines))};
    std::vector<std::string> header;
    const Expected<bool> more = csv.records_.next(header);
    if (!more) return more.error();
    if (!*more) return Error{ErrorCode::bad_input, csv.records_.name(), "the file is empty", "a header and rows"};
    csv.width_ = header.size();
    const auto find = [&](std::string_view name) -> Expected<std::size_t> {
      const auto column = std::find(header.begin(), header.end(), name);
      if (column != header.end()) return static_cast<std::size_t>(column - header.begin());
      return Error{ErrorCode::bad_input, csv.records_.where(), "the header has no column '" + std::string{name} + "'",
                   "that column"};
    };
    if (!text.empty()) {
      const Expected<std::size_t> column = find(text);
      if (!column) return column.error();
      csv.text_ = *column;
    }
    for (const std::string_view name : numbers) {
      const Expected<std::size_t> column = find(name);
      if (!column) return column.error();
      csv.columns_.push_back({*column, std::string{name}});
    }
    return csv;
  }

  /// Reads the next row; false at the end. A file without rows is an error.
  Expected<bool> next() {
    const Expected<bool> more = records_.next(cells_);
    if (!more) return more.error();
    if (!*more) {
      if (rows_ == 0)
        return Error{ErrorCode::bad_input, records_.name(), "there is no row after the header", "measured times"};
      return false;
    }
    ++rows_;
    if (cells_.size() != width_)
      return Error{ErrorCode::bad_input, records_.where(), "the row has " + std::to_string(cells_.size()) + " fields",
                   std::to_string(width_)};
    numbers_.clear();
    for (const auto& [column, name] : columns_) {
      const std::string& cell = cells_[column];
      double value = std::numeric_limits<double>::quiet_NaN();
      if (cell.empty() && name == optional_) {
        numbers_.push_back(value);
        continue;
      }
      const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
      if (error != std::errc{} || end != cell.data() + cell.size() || !std::isfinite(value) || std::abs(value) > 1e17)
        return Error{ErrorCode::bad_input, records_.where(), name + " is '" + excerpt(cell) + "'", "a number"};
      numbers_.push_back(value);
    }
    return true;
  }

  /// A column whose cells may be empty: they read as NaN.
  void may_be_empty(std::string_view name) { optional_ = name; }
  [[nodiscard]] const std::string& text() const { return cells_[text_]; }
  [[nodiscard]] double number(std::size_t i) const { return numbers_[i]; }
  /// A whole number from `least` to 10 million.
  [[nodiscard]] Expected<std::int64_t> whole(std::size_t i, std::int64_t least) const {
    const double value = numbers_[i];
    if (value == std::floor(value) && value >= static_cast<double>(least) && value <= 1e7)
      return static_cast<std::int64_t>(value);
    return Error{ErrorCode::bad_input, records_.where(),
                 columns_[i].second + " is '" + excerpt(cells_[columns_[i].first]) + "'",
                 "a whole number from " + std::to_string(least) + " to 10000000"};
  }
  [[nodiscard]] Error wrong(std::string what, std::string expected) const {
    return {ErrorCode::bad_input, records_.where(), std::move(what), std::move(expected)};
  }

 private:
  explicit NamedCsv(CsvRecords records) : records_(std::move(records)) {}

  CsvRecords records_;
  std::size_t width_ = 0, text_ = 0;
  std::string_view optional_;
  std::vector<std::pair<std::size_t, std::string>> columns_;
  std::vector<std::string> cells_;
  std::vector<double> numbers_;
  std::int64_t rows_ = 0;
};

} // namespace detail

/// Reads `skew.csv`: decodes of two lengths, the share of the way from the mean's to the longest's time that they took.
inline Expected<SkewTable> read_skew_table(Expected<LineReader> file) {
  Expected<detail::NamedCsv> csv =
      detail::NamedCsv::open(std::move(file), "", {"pc", "n", "kv_big", "kv_mean", "alpha"});
  if (!csv) return csv.error();
  csv->may_be_empty("alpha"); // of a batch whose mean and longest took equally long
  std::vector<SkewTable::Point> points;
  for (;;) {
    const Expected<bool> row = csv->next();
    if (!row) return row.error();
    if (!*row) break;
    if (std::isnan(csv->number(4))) continue;
    const Expected<std::int64_t> chunk = csv->whole(0, 0);
    if (!chunk) return chunk.error();
    const Expected<std::int64_t> decodes = csv->whole(1, 2);
    if (!decodes) return decodes.error();
    const double longest = csv->number(2), mean = csv->number(3);
    if (!(longest > 0 && mean > 0 && mean <= longest))
      return csv->wrong("the mean context is not between 0 and the longest", "0 < kv_mean <= kv_big");
    points.push_back({*chunk, *decodes, (longest - mean) / longest, csv->number(4)});
  }
  if (points.empty()) return csv->wrong("no row has an alpha", "measured shares");
  return SkewTable(std::move(points));
}

/// Reads `moe.csv`: a layer's experts by tokens and touched experts.
inline Expected<ExpertTable> read_expert_table(Expected<LineReader> file, const ExpertShare& experts) {
  Expected<detail::NamedCsv> csv =
      detail::NamedCsv::open(std::move(file), "", {"tokens", "activated_experts", "time_us"});
  if (!csv) return csv.error();
  std::map<std::int64_t, std::vector<MeasuredLine::Point>> points;
  for (;;) {
    const Expected<bool> row = csv->next();
    if (!row) return row.error();
    if (!*row) break;
    const Expected<std::int64_t> tokens = csv->whole(0, 1);
    if (!tokens) return tokens.error();
    const Expected<std::int64_t> touched = csv->whole(1, 1);
    if (!touched) return touched.error();
    if (!(csv->number(2) > 0 && csv->number(2) <= 1e9))
      return csv->wrong("time_us is not above 0", "microseconds above 0 and at most 1e9");
    std::vector<MeasuredLine::Point>& line = points[*tokens];
    if (!line.empty() && *touched <= line.back().at)
      return csv->wrong(std::to_string(*touched) + " experts follow " + std::to_string(line.back().at),
                        "ascending experts of as many tokens");
    line.push_back({*touched, csv->number(2) * 1e-6});
  }
  std::vector<ExpertTable::Row> rows;
  for (auto& [tokens, line] : points) rows.push_back({tokens, MeasuredLine(std::move(line))});
  return ExpertTable(experts, std::move(rows));
}

/// Reads `step.csv`: whole iterations, timed in pairs with and without CUDA graphs. Returns what a graph saves: for
/// decodes alone, and for a batch with a chunk. Several rows of as many tokens count with their mean.
inline Expected<CudaGraphs::Saving> read_graph_saving(Expected<LineReader> file) {
  Expected<detail::NamedCsv> csv = detail::NamedCsv::open(std::move(file), "branch", {"num_tokens", "saved_us"});
  if (!csv) return csv.error();
  std::map<std::int64_t, std::pair<double, int>> full, pieces;
  for (;;) {
    const Expected<bool> row = csv->next();
    if (!row) return row.error();
    if (!*row) break;
    const Expected<std::int64_t> tokens = csv->whole(0, 1);
    if (!tokens) return tokens.error();
    if (csv->text() == "none") continue; // beyond the largest graph: shows the measurement's error
    if (csv->text() != "full" && csv->text() != "piecewise")
      return csv->wrong("branch is '" + excerpt(csv->text()) + "'", "full, piecewise or none");
    auto& [sum, count] = (csv->text() == "full" ? full : pieces)[*tokens];
    sum += csv->number(1) * 1e-6;
    ++count;
  }
  const auto line = [](const std::map<std::int64_t, std::pair<double, int>>& rows) -> std::optional<MeasuredLine> {
    std::vector<MeasuredLine::Point> points;
    for (const auto& [tokens, mean] : rows) points.push_back({tokens, mean.first / mean.second});
    if (points.empty()) return std::nullopt;
    return MeasuredLine(std::move(points));
  };
  return CudaGraphs::Saving{Seconds{0}, line(full), line(pieces)};
}

// read_all_reduce: reads measured all-reduces from CSV.

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
