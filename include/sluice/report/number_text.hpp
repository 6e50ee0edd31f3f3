// SPDX-License-Identifier: Apache-2.0
// Numbers and tables for people: few digits, one unit per column, a dash for a missing number; aligned columns.
#pragma once

#include "sluice/core/assert.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// Formats numbers for people: few digits, one unit per column, a dash for a missing number.

/// `value` with `decimals` decimals; "-" for NaN, "inf" for infinity.
[[nodiscard]] inline std::string fixed_text(double value, int decimals) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[400]; // the largest double has 309 digits before the point
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

/// Formats a number with three significant digits, without an exponent: 0.0421, 3.14, 27.5, 1234. Whole numbers keep
/// all their digits.
[[nodiscard]] inline std::string short_text(double value) {
  const double size = std::abs(value);
  if (!(size > 0)) return std::isnan(value) ? "-" : "0";
  if (size >= 100) return fixed_text(value, 0);
  if (size >= 10) return fixed_text(value, 1);
  if (size >= 1) return fixed_text(value, 2);
  if (size >= 0.1) return fixed_text(value, 3);
  if (size >= 0.0005) return fixed_text(value, 4);
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

/// Formats seconds as milliseconds, for a column that spans microseconds to minutes. Never uses an exponent, which
/// looks like a large value among plain numbers.
[[nodiscard]] inline std::string milliseconds_text(double seconds) {
  return seconds > 0 && seconds < 5e-7 ? "<0.0005" : short_text(1e3 * seconds);
}

/// Formats a number without trailing zeros, for a sentence: "8", not "8.00".
[[nodiscard]] inline std::string tidy_text(double value) {
  std::string text = short_text(value);
  if (text.find('.') == std::string::npos || text.find('e') != std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// Formats a share as a percentage. A share below 1 is never rounded to 100 % (99.97 % does not become 100.0), nor one
/// above 0 to 0 %.
[[nodiscard]] inline std::string percent_text(double share) {
  if (std::isnan(share)) return "-";
  std::string text = fixed_text(100 * share, 1);
  if (text == "100.0" && share < 1) return ">99.9";
  if (text == "0.0" && share > 0) return "<0.1";
  return text;
}

/// Formats bytes in the largest decimal unit that leaves a number of at least 1: "1.28 GB".
[[nodiscard]] inline std::string bytes_text(double bytes) {
  static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  int unit = 0;
  while (std::abs(bytes) >= 1000 && unit < 5) {
    bytes /= 1000;
    ++unit;
  }
  return tidy_text(bytes) + " " + units[unit];
}

/// Formats a time in a suitable unit: "420 us", "58.9 ms", "7.25 s", "2 h 13 min".
[[nodiscard]] inline std::string time_text(double seconds) {
  if (std::isnan(seconds)) return "-";
  if (std::isinf(seconds)) return "none";
  if (seconds < 0) return "-" + time_text(-seconds);
  if (seconds < 1e-3) return tidy_text(seconds * 1e6) + " us";
  if (seconds < 1) return tidy_text(seconds * 1e3) + " ms";
  if (seconds < 120 || seconds > 1e15) return tidy_text(seconds) + " s";
  const auto minutes = static_cast<std::int64_t>(seconds / 60);
  if (minutes < 60) {
    const auto rest = static_cast<std::int64_t>(seconds) % 60;
    return std::to_string(minutes) + " min" + (rest > 0 ? " " + std::to_string(rest) + " s" : std::string{});
  }
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

// TextTable: text in aligned columns.

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
