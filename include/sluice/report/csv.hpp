// SPDX-License-Identifier: Apache-2.0
// CSV: columns with a name, type, unit and meaning, cells, and the package that describes the files to programs.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/made_by.hpp"

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// Appends one row of RFC 4180. Numbers are written as the shortest decimal that reads back as the same number,
/// booleans as words, NaN and infinity as an empty cell, which readers take for a missing value.
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
    unquoted(std::string_view{digits, std::to_chars(digits, digits + sizeof digits, value).ptr});
  }
  void cell(double value);
  void cell(std::string_view text);
  void cell(const char* text) { cell(std::string_view{text}); }
  template <class Value>
  void cell(const std::optional<Value>& value) {
    value ? cell(*value) : cell(std::string_view{});
  }

 private:
  void separate();
  /// Numbers come here directly: looking for characters to quote took a tenth of a comparison's time.
  void unquoted(std::string_view text);

  std::string& out_;
  bool first_ = true;
};

/// One column: `type` is in Frictionless Table Schema's terms; `unit` is empty if there is none.
struct CsvColumn {
  std::string_view name, type, unit, what;
};

namespace detail {

/// A cell's type in Frictionless Table Schema's terms.
template <class Cell>
inline constexpr std::string_view csv_type = std::same_as<Cell, bool>    ? "boolean"
                                             : std::integral<Cell>       ? "integer"
                                             : std::floating_point<Cell> ? "number"
                                                                         : "string";
template <class Cell>
inline constexpr std::string_view csv_type<std::optional<Cell>> = csv_type<Cell>;

} // namespace detail

/// A column of a table whose rows are made from `Row`s. `cell` is a lambda without captures that returns the cell; its
/// return type determines the column's type. An empty optional leaves the cell empty.
template <class Row>
struct CsvColumnOf : CsvColumn {
  template <class Cell>
  constexpr CsvColumnOf(std::string_view name_, std::string_view unit_, std::string_view what_, Cell /*cell*/)
      : CsvColumn{name_, detail::csv_type<std::remove_cvref_t<std::invoke_result_t<Cell, const Row&>>>, unit_, what_},
        write{[](CsvRow& row, const Row& of) { row.cell(Cell{}(of)); }} {}

  void (*write)(CsvRow& row, const Row& of);
};

/// Returns the columns without their functions, for a file's header and description.
template <class Row, std::size_t count>
constexpr std::array<CsvColumn, count> csv_columns(const CsvColumnOf<Row> (&columns)[count]) {
  std::array<CsvColumn, count> heads;
  for (std::size_t i = 0; i < count; ++i) heads[i] = columns[i];
  return heads;
}

/// Appends the cells of `of` to a row.
template <class Row, std::size_t count>
void append_cells(CsvRow& row, const CsvColumnOf<Row> (&columns)[count], const std::type_identity_t<Row>& of) {
  for (const CsvColumnOf<Row>& column : columns) column.write(row, of);
}

/// Returns the first line of a file with these columns.
[[nodiscard]] std::string csv_head(std::span<const CsvColumn> first, std::span<const CsvColumn> columns);

// datapackage.json: describes the CSV files in its folder to programs, in Frictionless Data's format.

/// One file and its columns; the run's columns come first.
struct CsvFile {
  std::string_view name; ///< "requests"
  std::string_view what;
  std::span<const CsvColumn> run;
  std::span<const CsvColumn> columns;
  std::string_view remark{}; ///< about these results: missing rows, for example
  bool gzipped = false;      ///< the file is NAME.csv.gz
};

/// Names the program and the command that made the files, and every column with its type, unit and meaning. `facts`:
/// labels and texts about the run, such as the figures of the machine and their sources. Rejected: a column that
/// repeats the commit in each row; and comment lines before the first row, which readers need an option to skip.
[[nodiscard]] std::string csv_package(std::span<const CsvFile> files, const MadeBy& made_by, std::string_view command,
                                      std::span<const std::pair<std::string, std::string>> facts = {});

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/csv.inl.hpp"
#endif
