// SPDX-License-Identifier: Apache-2.0
// read_csv: reads RFC 4180 back for tests, independently of the writer.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace sluice_test {

/// The rows of a text, as lists of cells.
inline std::vector<std::vector<std::string>> read_csv_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string cell;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cell += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == ',' || c == '\n')) {
      row.push_back(std::move(cell));
      cell.clear();
      if (c == '\n') {
        rows.push_back(std::move(row));
        row.clear();
      }
    } else {
      cell += c;
    }
  }
  return rows;
}

/// The same, by the names in the header.
inline std::vector<std::map<std::string, std::string>> read_csv(const std::string& text) {
  std::vector<std::map<std::string, std::string>> table;
  const auto rows = read_csv_rows(text);
  for (std::size_t r = 1; r < rows.size(); ++r) {
    auto& row = table.emplace_back();
    for (std::size_t c = 0; c < rows[r].size() && c < rows[0].size(); ++c) row[rows[0][c]] = rows[r][c];
  }
  return table;
}

} // namespace sluice_test
