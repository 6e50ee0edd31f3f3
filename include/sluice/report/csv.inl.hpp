// SPDX-License-Identifier: Apache-2.0
// CSV: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/csv.hpp"

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

} // namespace sluice
