// SPDX-License-Identifier: Apache-2.0
// TableRows: the rows of a CSV, or of a table with tabs, by the names of its columns.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/line_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fleets {

/// Reads a table with a header line. The first error is kept in `status`, and ends the rows:
///
///     TableRows rows(path, {"arrival_s", "prompt"});
///     while (rows.next()) use(rows.number(0, 0, 1e9), rows.whole(1, 1, 1'000'000));
///     if (!rows.status()) return rows.status().error();
class TableRows {
 public:
  /// The header has the first `needed` of `columns` in any order, and perhaps the others; it may have more. A column
  /// "router|experiment" may have either name.
  TableRows(const std::filesystem::path& path, std::vector<std::string_view> columns, std::size_t needed);
  TableRows(const std::filesystem::path& path, const std::vector<std::string_view>& columns)
      : TableRows(path, columns, columns.size()) {}

  /// Reads the next row; false at the end, and after an error.
  bool next();
  [[nodiscard]] const sluice::Status& status() const { return status_; }

  /// Whether the table has that column.
  [[nodiscard]] bool has(std::size_t column) const { return at_[column] != absent; }
  [[nodiscard]] const std::string& text(std::size_t column) const { return fields_[at_[column]]; }
  /// A finite number from `least` to `most`; 0 with an error if it is none.
  double number(std::size_t column, double least, double most);
  std::int64_t whole(std::size_t column, std::int64_t least, std::int64_t most);
  /// Refuses the row.
  void refuse(std::string what, std::string expected);

 private:
  static constexpr std::size_t absent = SIZE_MAX;

  std::vector<std::string_view> columns_;
  std::vector<std::size_t> at_; ///< by column: its place in the header
  std::size_t width_ = 0;
  std::optional<sluice::CsvRecords> records_;
  std::vector<std::string> fields_;
  sluice::Status status_;
};

} // namespace fleets
