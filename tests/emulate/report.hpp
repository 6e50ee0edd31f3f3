// SPDX-License-Identifier: Apache-2.0
// Report: the emulator's findings about a launch. `Where`: the calling line of a kernel.
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

/// What a kernel states about itself; a launch checks it.
struct Limits {
  /// Bank conflicts of `load_matrices` in the whole launch.
  std::uint64_t conflicts = std::numeric_limits<std::uint64_t>::max();
};

struct Report {
  std::vector<std::string> errors;  ///< one sentence each; the first block with an error is the last that runs
  std::uint64_t switches = 0;       ///< of fibers
  std::uint64_t matrices = 0;       ///< 8x8 matrices that `load_matrices` read
  std::uint64_t conflicts = 0;      ///< how often a row of such a matrix waited for another in its bank
  std::uint64_t most_conflicts = 0; ///< of one call, and its place
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
