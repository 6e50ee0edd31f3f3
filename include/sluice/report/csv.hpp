// SPDX-License-Identifier: Apache-2.0
// CsvTable: a table whose columns have names, types, units and meanings, and its rows as text.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// Appends one row of RFC 4180: numbers as the shortest decimal that reads back as the same, true and false as words,
/// nothing where there is no value (NaN, infinity), which readers take for a missing one.
class CsvRow {
 public:
  explicit CsvRow(std::string& out) : out_(out) {}
  CsvRow(const CsvRow&) = delete;
  CsvRow& operator=(const CsvRow&) = delete;
  ~CsvRow() { out_ += '\n'; }

  template <std::same_as<bool> Bool>
  void cell(Bool value) {
    cell(std::string_view{value ? "true" : "false"});
  }
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  void cell(Integer value) {
    char digits[24];
    cell(std::string_view{digits, std::to_chars(digits, digits + sizeof digits, value).ptr});
  }
  void cell(double value) {
    char digits[32];
    const auto end = std::isfinite(value) ? std::to_chars(digits, digits + sizeof digits, value).ptr : digits;
    cell(std::string_view{digits, end});
  }
  void cell(std::string_view text) {
    if (!first_) out_ += ',';
    first_ = false;
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
      out_ += text;
      return;
    }
    out_ += '"';
    for (const char c : text) {
      if (c == '"') out_ += '"';
      out_ += c;
    }
    out_ += '"';
  }
  void cell(const char* text) { cell(std::string_view{text}); }
  void none() { cell(std::string_view{}); }

 private:
  std::string& out_;
  bool first_ = true;
};

/// One column: `type` is Frictionless Table Schema's word for it, `unit` is empty of what has none.
struct CsvColumn {
  std::string_view name, type, unit, what;
};

/// The first line of a file with these columns.
[[nodiscard]] inline std::string csv_head(std::span<const CsvColumn> first, std::span<const CsvColumn> columns) {
  std::string text;
  {
    CsvRow row(text);
    for (const CsvColumn& column : first) row.cell(column.name);
    for (const CsvColumn& column : columns) row.cell(column.name);
  }
  return text;
}

} // namespace sluice
