// SPDX-License-Identifier: Apache-2.0
// The styles of drawn_table.
#include "compare/drawn_table.hpp"

#include "sluice/report/csv.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

/// Returns the number of characters in a text: counts only the first byte of a multi-byte character (±).
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Returns each column's width, which is at least `least`.
std::vector<std::size_t> widths_of(const std::vector<std::string>& heads,
                                   const std::vector<std::vector<std::string>>& rows, std::size_t least) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < heads.size(); ++c) {
    std::size_t width = std::max(width_of(heads[c]), least);
    for (const auto& row : rows) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
  }
  return widths;
}

std::string padded(const std::string& cell, std::size_t width, bool left) {
  const std::string space(width - width_of(cell), ' ');
  return left ? cell + space : space + cell;
}

/// Returns a Markdown table whose source is aligned, too.
std::string table_of(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& rows,
                     const std::vector<bool>& left) {
  const std::vector<std::size_t> widths = widths_of(heads, rows, 3);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (std::size_t c = 0; c < cells.size(); ++c) text += " " + padded(cells[c], widths[c], left[c]) + " |";
    return text + "\n";
  };
  std::string text = line(heads) + "|";
  for (std::size_t c = 0; c < heads.size(); ++c)
    text += left[c] ? std::string(widths[c] + 2, '-') + "|" : std::string(widths[c] + 1, '-') + ":|";
  text += "\n";
  for (const auto& row : rows) text += line(row);
  return text;
}

std::string csv_of(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    CsvRow row(text);
    for (const std::string& cell : cells) row.cell(cell);
  };
  line(heads);
  for (const auto& row : rows) line(row);
  return text;
}

/// Escapes a text for LaTeX.
std::string escaped_tex(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> replaced[] = {{"±", "$\\pm$"},
                                                                        {"\\", "\\textbackslash{}"},
                                                                        {"~", "\\textasciitilde{}"},
                                                                        {"^", "\\textasciicircum{}"},
                                                                        {"<", "$<$"},
                                                                        {">", "$>$"}};
  std::string out;
  while (!text.empty()) {
    const auto* const found = std::find_if(std::begin(replaced), std::end(replaced),
                                           [&](const auto& pair) { return text.starts_with(pair.first); });
    if (found != std::end(replaced)) {
      out += found->second;
      text.remove_prefix(found->first.size());
      continue;
    }
    if (std::string_view{"&%$#_{}"}.find(text.front()) != std::string_view::npos) out += '\\';
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

/// Returns a tabular of the package booktabs.
std::string latex_of(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& rows,
                     const std::vector<bool>& left) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t c = 0; c < cells.size(); ++c)
      text += (c > 0 ? " & " : "") + (cells[c] == "-" ? std::string{"--"} : escaped_tex(cells[c]));
    return "  " + text + " \\\\\n";
  };
  std::string text = "\\begin{tabular}{";
  for (const bool is_left : left) text += is_left ? 'l' : 'r';
  text += "}\n  \\toprule\n" + line(heads) + "  \\midrule\n";
  for (const auto& row : rows) text += line(row);
  return text + "  \\bottomrule\n\\end{tabular}\n";
}

/// Returns a table aligned for a terminal.
std::string plain_of(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& rows,
                     const std::vector<bool>& left) {
  const std::vector<std::size_t> widths = widths_of(heads, rows, 0);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t c = 0; c < cells.size(); ++c) text += (c > 0 ? "  " : "") + padded(cells[c], widths[c], left[c]);
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line(heads);
  std::size_t width = 2 * (heads.size() - 1);
  for (const std::size_t column : widths) width += column;
  text += std::string(width, '-') + "\n";
  for (const auto& row : rows) text += line(row);
  return text;
}

} // namespace

std::string drawn_table(std::string_view style, const std::vector<std::string>& heads,
                        const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& left) {
  return style == "csv"     ? csv_of(heads, rows)
         : style == "latex" ? latex_of(heads, rows, left) + "\n"
         : style == "md"    ? table_of(heads, rows, left) + "\n"
                            : plain_of(heads, rows, left) + "\n";
}

} // namespace compared
