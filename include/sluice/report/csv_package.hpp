// SPDX-License-Identifier: Apache-2.0
// datapackage.json: describes the CSV files in its folder to programs, in Frictionless Data's format.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/csv.hpp"
#include "sluice/report/made_by.hpp"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

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
#include "sluice/report/csv_package.inl.hpp"
#endif
