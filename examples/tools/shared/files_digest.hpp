// SPDX-License-Identifier: Apache-2.0
// files_digest: whether the files that a command names have changed since.
#pragma once

#include "sluice/core/fnv.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

/// Returns a digest of the files among the words, and of the files in the folders among them; empty if there are none.
[[nodiscard]] inline std::string files_digest(std::span<const std::string> words) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (const std::string& word : words) {
    if (std::filesystem::is_regular_file(word, ignored)) files.emplace_back(word);
    if (!std::filesystem::is_directory(word, ignored)) continue;
    std::filesystem::recursive_directory_iterator inside(word, ignored);
    for (; inside != std::filesystem::recursive_directory_iterator(); inside.increment(ignored))
      if (inside->is_regular_file(ignored)) files.push_back(inside->path());
  }
  std::sort(files.begin(), files.end());
  sluice::Fnv digest;
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::array<char, 1 << 16> piece{};
    std::int64_t size = 0;
    while (in.read(piece.data(), piece.size()), in.gcount() > 0) {
      digest.add(reinterpret_cast<const std::byte*>(piece.data()), in.gcount());
      size += in.gcount();
    }
    digest.add(size);
  }
  return files.empty() ? "" : digest.text();
}
