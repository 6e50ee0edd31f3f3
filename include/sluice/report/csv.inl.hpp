// SPDX-License-Identifier: Apache-2.0
// CSV: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/csv.hpp"
#include "sluice/report/observer/json_writer.hpp"

#include <cmath>

namespace sluice {

SLUICE_REPORT_INLINE void CsvRow::cell(double value) {
  char digits[32];
  const auto end = std::isfinite(value) ? std::to_chars(digits, digits + sizeof digits, value).ptr : digits;
  unquoted(std::string_view{digits, end});
}

SLUICE_REPORT_INLINE void CsvRow::cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return unquoted(text);
  separate();
  out_ += '"';
  for (const char c : text) {
    if (c == '"') out_ += '"';
    out_ += c;
  }
  out_ += '"';
}

SLUICE_REPORT_INLINE void CsvRow::separate() {
  if (!first_) out_ += ',';
  first_ = false;
}

SLUICE_REPORT_INLINE void CsvRow::unquoted(std::string_view text) {
  separate();
  out_ += text;
}

SLUICE_REPORT_INLINE std::string csv_head(std::span<const CsvColumn> first, std::span<const CsvColumn> columns) {
  std::string text;
  {
    CsvRow row(text);
    for (const CsvColumn& column : first) row.cell(column.name);
    for (const CsvColumn& column : columns) row.cell(column.name);
  }
  return text;
}

SLUICE_REPORT_INLINE std::string csv_package(std::span<const CsvFile> files, const MadeBy& made_by,
                                             std::string_view command,
                                             std::span<const std::pair<std::string, std::string>> facts) {
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
