// SPDX-License-Identifier: Apache-2.0
// LineReader: the numbered lines of a text stream, in constant memory.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// The lines of a stream, without line end (LF or CRLF; or CR, if the first line ends with it, as in a spreadsheet's
/// "CSV (Macintosh)") and without a leading byte order mark. Empty lines are skipped, but counted.
class LineReader {
 public:
  /// Longer lines are errors: a trace's longest line has a few KiB, and a binary file may have no line end.
  static constexpr std::size_t longest_line = std::size_t{1} << 20;

  /// Error messages begin with `name`, a file's path.
  LineReader(std::unique_ptr<std::istream> stream, std::string name);

  static Expected<LineReader> open(const std::string& path);

  /// Returns the next line, valid until the next call, or nothing at the end.
  Expected<std::optional<std::string_view>> next();

  /// "trace.csv:17": the position of the last line.
  [[nodiscard]] std::string where() const { return name_ + ":" + std::to_string(number_); }
  [[nodiscard]] std::int64_t number() const { return number_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  /// Returns whether a character is available. Reads through the stream, whose `read` never throws, not through its
  /// buffer.
  bool refill();

  std::unique_ptr<std::istream> stream_;
  std::unique_ptr<std::array<char, 1 << 14>> buffer_ = std::make_unique<std::array<char, 1 << 14>>();
  char line_end_ = 0; ///< 0 until the first line is read
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string name_;
  std::string line_;
  std::int64_t number_ = 0;
};

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/line_reader.inl.hpp"
#endif
