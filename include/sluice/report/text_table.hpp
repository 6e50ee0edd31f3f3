// SPDX-License-Identifier: Apache-2.0
// TextTable: text in aligned columns.
#pragma once

#include "sluice/core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Text in columns under two header lines: the first contains the groups, the second their members. The first column is
/// aligned left, the others right.
class TextTable {
 public:
  struct Column {
    std::string group; ///< equal neighbours share one head
    std::string head;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row with one cell per column. Cells are ASCII, or text with one column per byte.
  void row(std::vector<std::string> cells) {
    SLUICE_ASSERT(cells.size() == columns_.size(), "one cell a column");
    rows_.push_back(std::move(cells));
  }
  /// Draws a line above the next row.
  void rule() { rules_.push_back(rows_.size()); }

  [[nodiscard]] std::string text() const {
    const std::vector<std::size_t> widths = fit();
    std::string out = groups(widths);
    std::vector<std::string> heads;
    for (const Column& column : columns_) heads.push_back(column.head);
    out += line(heads, widths);
    const std::string ruler = rule_line(widths);
    out += ruler;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (std::find(rules_.begin(), rules_.end(), i) != rules_.end()) out += ruler;
      out += line(rows_[i], widths);
    }
    return out;
  }

 private:
  /// Inserts two spaces before each column, and one more where a group begins.
  [[nodiscard]] std::size_t space(std::size_t column) const {
    if (column == 0) return 0;
    return columns_[column].group == columns_[column - 1].group && !columns_[column].group.empty() ? 1 : 3;
  }
  [[nodiscard]] std::size_t group_end(std::size_t begin) const {
    std::size_t end = begin + 1;
    while (end < columns_.size() && !columns_[begin].group.empty() && columns_[end].group == columns_[begin].group)
      ++end;
    return end;
  }
  [[nodiscard]] std::vector<std::size_t> fit() const {
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::size_t width = columns_[c].head.size();
      for (const auto& cells : rows_) width = std::max(width, cells[c].size());
      widths.push_back(width);
    }
    for (std::size_t c = 0; c < columns_.size(); c = group_end(c)) { // a group's head may be wider than its members
      std::size_t width = 0;
      for (std::size_t i = c; i < group_end(c); ++i) width += widths[i] + (i > c ? space(i) : 0);
      if (columns_[c].group.size() > width) widths[group_end(c) - 1] += columns_[c].group.size() - width;
    }
    return widths;
  }
  [[nodiscard]] std::string groups(const std::vector<std::size_t>& widths) const {
    std::string out;
    for (std::size_t c = 0; c < columns_.size(); c = group_end(c)) {
      std::size_t width = 0;
      for (std::size_t i = c; i < group_end(c); ++i) width += widths[i] + (i > c ? space(i) : 0);
      const std::string& head = columns_[c].group;
      out.append(space(c) + width - head.size(), ' ');
      out += head;
    }
    return trimmed(out) + '\n';
  }
  [[nodiscard]] std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
    std::string out;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      out.append(space(c), ' ');
      const std::string pad(widths[c] - cells[c].size(), ' ');
      out += c == 0 ? cells[c] + pad : pad + cells[c];
    }
    return trimmed(out) + '\n';
  }
  [[nodiscard]] std::string rule_line(const std::vector<std::size_t>& widths) const {
    std::size_t width = 0;
    for (std::size_t c = 0; c < widths.size(); ++c) width += space(c) + widths[c];
    return std::string(width, '-') + '\n';
  }
  static std::string trimmed(std::string text) {
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> rules_;
};

} // namespace sluice
