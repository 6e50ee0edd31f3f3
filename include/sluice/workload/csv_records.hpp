// SPDX-License-Identifier: Apache-2.0
// CsvRecords: the records of a CSV as fields without quotes.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/workload/line_reader.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// RFC 4180, one record at a time: a quoted field may contain separators, line ends and doubled quotes. Blanks around
/// an unquoted field are dropped. The first record determines the separator.
class CsvRecords {
 public:
  explicit CsvRecords(LineReader lines) : lines_(std::move(lines)) {}

  /// Reads the next record's fields; returns false at the end.
  Expected<bool> next(std::vector<std::string>& fields);

  /// "trace.csv:17": the line where the last record begins.
  [[nodiscard]] std::string where() const { return lines_.name() + ":" + std::to_string(number_); }
  [[nodiscard]] const std::string& name() const { return lines_.name(); }
  /// Returns the fields' separator: comma, semicolon or tab; 0 before the first record.
  [[nodiscard]] char separator() const { return separator_; }

 private:
  /// Returns comma, semicolon or tab: the most frequent one outside quotes in the line.
  static char separator_of(std::string_view line);

  [[nodiscard]] bool blank(char character) const;
  void skip_blanks(std::string_view& text) const;
  [[nodiscard]] std::string_view trimmed(std::string_view text) const;

  LineReader lines_;
  std::int64_t number_ = 0; ///< the line where the record begins
  char separator_ = 0;      ///< 0 until the first record is read
};

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/csv_records.inl.hpp"
#endif
