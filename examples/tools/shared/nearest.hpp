// SPDX-License-Identifier: Apache-2.0
// nearest: the name that somebody may have meant.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <vector>

/// Letters to insert, remove or replace to make one name of the other, capitals or not (Levenshtein).
[[nodiscard]] inline std::size_t name_distance(std::string_view a, std::string_view b) {
  const auto small = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (small(a[i]) == small(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// Of `names` the nearest to `meant`; of equals the first.
[[nodiscard]] inline std::string_view nearest(std::string_view meant, const std::vector<std::string_view>& names) {
  std::string_view best;
  std::size_t least = static_cast<std::size_t>(-1);
  for (const std::string_view name : names)
    if (const std::size_t distance = name_distance(meant, name); distance < least) least = distance, best = name;
  return best;
}
