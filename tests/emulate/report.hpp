// SPDX-License-Identifier: Apache-2.0
// Report: what the emulator saw of a launch. Where: the line of a kernel that called.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::emulate {

/// The place of a call. (clang 14 has no std::source_location.)
struct Where {
  const char* file = "";
  unsigned line = 0;

  static constexpr Where current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  /// "paged_attention.hpp:120".
  [[nodiscard]] std::string text() const {
    const std::string_view path{file};
    return std::string{path.substr(path.rfind('/') + 1)} + ":" + std::to_string(line); // npos + 1 is 0
  }
  friend bool operator==(const Where& a, const Where& b) {
    return a.line == b.line && (a.file == b.file || std::string_view{a.file} == b.file);
  }
};

/// What a kernel states of itself and a launch holds it to.
struct Limits {
  /// Of `load_matrices`, in the whole launch.
  std::uint64_t conflicts = std::numeric_limits<std::uint64_t>::max();
};

struct Report {
  std::vector<std::string> errors;  ///< a sentence each; the first block that has one is the last that runs
  std::uint64_t switches = 0;       ///< of fibers
  std::uint64_t matrices = 0;       ///< of 8x8 that `load_matrices` read
  std::uint64_t conflicts = 0;      ///< times that a row of such a matrix waited for another in its bank
  std::uint64_t most_conflicts = 0; ///< of one call, and where that was
  Where most_conflicts_at;

  [[nodiscard]] bool ok() const { return errors.empty(); }
  /// All errors, a line each.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const std::string& one : errors) all += one + "\n";
    return all;
  }
};

} // namespace sluice::emulate
