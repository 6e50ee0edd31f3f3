// SPDX-License-Identifier: Apache-2.0
// PerfTable: a table of ai-dynamo/aiconfigurator, as CSV.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/line_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace imported {

/// A column and the value that a row must have in it.
struct Wanted {
  std::string_view column;
  std::string value;
};

/// The rows of a table whose columns have the wanted values, with some columns as whole numbers. All rows must be of
/// one device and one version of the framework: a bundle of two would describe neither.
class PerfTable {
 public:
  /// Opens `folder/name.csv`. A table without a `window_size` has 0 everywhere: its kernels attend to every token.
  static sluice::Expected<PerfTable> open(const std::filesystem::path& folder, const std::string& name,
                                          std::vector<Wanted> wanted, const std::vector<std::string_view>& numbers) {
    using namespace sluice;
    const std::filesystem::path path = folder / (name + ".csv");
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored) && std::filesystem::exists(folder / (name + ".parquet"), ignored))
      return Error{ErrorCode::bad_input, (folder / (name + ".parquet")).string(), "the table is still Parquet",
                   name + ".csv beside it, which parquet_to_csv.mjs makes of it"};
    Expected<LineReader> lines = LineReader::open(path.string());
    if (!lines) return lines.error();
    PerfTable table{CsvRecords(std::move(*lines))};
    table.file_ = path.filename().string();
    std::vector<std::string> header;
    const Expected<bool> any = table.records_.next(header);
    if (!any) return any.error();
    table.width_ = header.size();
    const auto find = [&](std::string_view column, std::size_t& at) -> Status {
      at = static_cast<std::size_t>(std::find(header.begin(), header.end(), column) - header.begin());
      if (at < header.size()) return {};
      return Error{ErrorCode::bad_input, path.string(), "the header has no column '" + std::string{column} + "'",
                   "a table of aiconfigurator"};
    };
    for (Wanted& one : wanted) {
      const bool everything = one.column == "window_size" && one.value == "0" &&
                              std::find(header.begin(), header.end(), one.column) == header.end();
      if (everything) continue;
      std::size_t at = 0;
      if (Status status = find(one.column, at); !status) return status.error();
      table.wanted_.emplace_back(at, std::move(one.value));
    }
    for (const std::string_view number : numbers)
      if (Status status = find(number, table.columns_.emplace_back()); !status) return status.error();
    for (const auto& [column, at] : {std::pair{"latency", &table.latency_},
                                     {"device", &table.device_at_},
                                     {"framework", &table.framework_},
                                     {"version", &table.version_at_}})
      if (Status status = find(column, *at); !status) return status.error();
    return table;
  }

  /// Reads the next wanted row; false at the end.
  sluice::Expected<bool> next() {
    using namespace sluice;
    for (;;) {
      const Expected<bool> more = records_.next(cells_);
      if (!more || !*more) return more;
      if (cells_.size() != width_)
        return wrong("the row has " + std::to_string(cells_.size()) + " columns",
                     std::to_string(width_) + ", as in the header");
      if (!std::all_of(wanted_.begin(), wanted_.end(),
                       [&](const auto& one) { return cells_[one.first] == one.second; }))
        continue;
      if (rows_++ == 0) {
        device_ = cells_[device_at_];
        version_ = cells_[framework_] + " " + cells_[version_at_];
      } else if (device_ != cells_[device_at_] || version_ != cells_[framework_] + " " + cells_[version_at_]) {
        return wrong("the row is of " + excerpt(cells_[device_at_]) + " and " + excerpt(cells_[framework_]) + " " +
                         excerpt(cells_[version_at_]),
                     device_ + " and " + version_ + ", as above");
      }
      numbers_.clear();
      for (const std::size_t column : columns_) {
        const std::string& cell = cells_[column];
        std::int64_t number = -1;
        const auto [end, failed] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
        if (failed != std::errc{} || end != cell.data() + cell.size() || number < 0 || number > most_size)
          return wrong("a size is '" + excerpt(cell) + "'", "a whole number from 0 to " + std::to_string(most_size));
        numbers_.push_back(number);
      }
      const std::string& cell = cells_[latency_];
      const auto [end, failed] = std::from_chars(cell.data(), cell.data() + cell.size(), milliseconds_);
      if (failed != std::errc{} || end != cell.data() + cell.size() || !std::isfinite(milliseconds_) ||
          milliseconds_ <= 0 || milliseconds_ > 1e6)
        return wrong("the latency is '" + excerpt(cell) + "'", "milliseconds above 0 and at most 1e6");
      return true;
    }
  }

  [[nodiscard]] std::int64_t number(std::size_t i) const { return numbers_[i]; }
  [[nodiscard]] double microseconds() const { return milliseconds_ * 1e3; }
  /// The GPU that the first row names.
  [[nodiscard]] const std::string& device() const { return device_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// "gemm_perf.csv (VLLM 0.24.0, 321 rows)".
  [[nodiscard]] std::string source() const { return fmt::format("{} ({}, {} rows)", file_, version_, rows_); }
  [[nodiscard]] sluice::Error wrong(std::string what, std::string expected) const {
    return {sluice::ErrorCode::bad_input, records_.where(), std::move(what), std::move(expected)};
  }
  /// An error about the whole table.
  [[nodiscard]] sluice::Error lacks(std::string what, std::string expected) const {
    return {sluice::ErrorCode::bad_input, records_.name(), std::move(what), std::move(expected)};
  }

 private:
  static constexpr std::int64_t most_size = std::int64_t{1} << 40; // messages have hundreds of millions of elements

  explicit PerfTable(sluice::CsvRecords records) : records_(std::move(records)) {}

  sluice::CsvRecords records_;
  std::string file_, device_, version_;
  std::size_t width_ = 0, latency_ = 0, device_at_ = 0, framework_ = 0, version_at_ = 0;
  std::vector<std::pair<std::size_t, std::string>> wanted_;
  std::vector<std::size_t> columns_;
  std::vector<std::string> cells_;
  std::vector<std::int64_t> numbers_;
  double milliseconds_ = 0;
  std::int64_t rows_ = 0;
};

} // namespace imported
