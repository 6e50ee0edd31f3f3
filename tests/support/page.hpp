// SPDX-License-Identifier: Apache-2.0
// Reads a page of results without a browser: its data, and the numbers of its tables.
#pragma once

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace sluice_test {

/// The text between `open` and `close`, from `at` on, and moves `at` after it. Empty, with `at` at the end, if there is
/// none.
inline std::string between(const std::string& text, const std::string& open, const std::string& close,
                           std::size_t& at) {
  const std::size_t begin = text.find(open, at);
  const std::size_t end = begin == std::string::npos ? begin : text.find(close, begin + open.size());
  at = end == std::string::npos ? end : end + close.size();
  return end == std::string::npos ? std::string{} : text.substr(begin + open.size(), end - begin - open.size());
}

inline nlohmann::json page_data(const std::string& page) {
  std::size_t at = 0;
  return nlohmann::json::parse(between(page, "<script type=\"application/json\" id=\"data\">", "</script>", at));
}

struct PageTable {
  std::string caption;
  std::vector<std::map<std::string, std::string>> rows; ///< by column: the number that a script reads, or the text
};

/// The tables with a caption, which have a button: by their CSV's column names.
inline std::vector<PageTable> page_tables(const std::string& page) {
  const auto attribute = [](const std::string& tag, const std::string& name, const std::string& otherwise) {
    std::size_t at = 0;
    const std::string value = between(tag, name + "=\"", "\"", at);
    return at == std::string::npos ? otherwise : value;
  };
  const auto cells_of = [&](const std::string& row, const char* name) {
    std::vector<std::string> cells;
    for (std::size_t at = 0; at < row.size();) {
      const std::size_t begin = row.find("<t", at);
      if (begin == std::string::npos) break;
      const std::size_t end = row.find('>', begin), close = row.find("</t", end);
      const std::string tag = row.substr(begin, end - begin), text = row.substr(end + 1, close - end - 1);
      cells.push_back(attribute(tag, name, attribute(tag, "data-text", text.substr(0, text.find('<')))));
      at = close + 3;
    }
    return cells;
  };
  std::vector<PageTable> tables;
  for (std::size_t at = 0;;) {
    const std::string text = between(page, "<table", "</table>", at);
    if (at == std::string::npos) return tables;
    PageTable table;
    std::size_t within = 0;
    table.caption = between(text, "<caption><b>", "</b>", within);
    if (within == std::string::npos) continue;
    within = text.rfind("<tr>", text.find("</thead>")); // the last row of heads names the columns
    const std::vector<std::string> heads = cells_of(between(text, "<tr>", "</tr>", within), "data-key");
    within = text.find("<tbody>");
    for (;;) {
      std::string row = between(text, "<tr", "</tr>", within);
      if (within == std::string::npos) break;
      row.erase(0, row.find('>') + 1);
      std::vector<std::string> cells = cells_of(row, "data-v");
      std::map<std::string, std::string> of;
      for (std::size_t i = 0; i < heads.size() && i < cells.size(); ++i) of[heads[i]] = cells[i];
      table.rows.push_back(std::move(of));
    }
    tables.push_back(std::move(table));
  }
}

/// Whether a table's cell is this number of a report, to the cell's digits; empty if the report has none.
inline bool tells(const std::string& cell, const nlohmann::json& number) {
  if (number.is_null() || cell.empty()) return number.is_null() && cell.empty();
  return std::abs(std::stod(cell) - number.get<double>()) <= 1e-9;
}

} // namespace sluice_test
