// SPDX-License-Identifier: Apache-2.0
// datapackage.json: describes the CSV files in its folder to programs, in Frictionless Data's format.
#pragma once

#include "sluice/report/csv.hpp"
#include "sluice/report/made_by.hpp"
#include "sluice/report/observer/json_writer.hpp"

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
[[nodiscard]] inline std::string csv_package(std::span<const CsvFile> files, const MadeBy& made_by,
                                             std::string_view command,
                                             std::span<const std::pair<std::string, std::string>> facts = {}) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().line(2).field("name", "sluice").line(2).field("made_by", made_by.line());
  json.line(2).field("version", made_by.version).line(2).field("commit", made_by.commit);
  json.line(2).field("command", command);
  if (!facts.empty()) {
    json.line(2).key("facts").begin_object();
    for (const auto& [label, text_of] : facts) json.line(4).field(label, text_of);
    json.line(2).end_object();
  }
  json.line(2).key("resources").begin_array();
  for (const CsvFile& file : files) {
    json.line(4)
        .begin_object()
        .field("name", file.name)
        .field("path", std::string{file.name} + (file.gzipped ? ".csv.gz" : ".csv"));
    if (file.gzipped) json.field("compression", "gz");
    json.field("format", "csv").field("mediatype", "text/csv").field("encoding", "utf-8");
    json.field("description", file.what);
    if (!file.remark.empty()) json.field("remark", file.remark);
    json.key("schema").begin_object().key("fields").begin_array();
    for (const auto columns : {file.run, file.columns})
      for (const CsvColumn& column : columns) {
        json.line(6).begin_object().field("name", column.name).field("type", column.type);
        if (!column.unit.empty()) json.field("unit", column.unit);
        json.field("description", column.what).end_object();
      }
    json.end_array().end_object().end_object();
  }
  json.line(2).end_array().line().end_object();
  return text + '\n';
}

} // namespace sluice
