// SPDX-License-Identifier: Apache-2.0
// LineReader: the numbered lines of a text stream, in constant memory; opening a trace's file; records of a CSV.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {

/// The lines of a stream, without line end (LF or CRLF; or CR, if the first line ends with it, as in a spreadsheet's
/// "CSV (Macintosh)") and without a leading byte order mark. Empty lines are skipped, but counted.
class LineReader {
 public:
  /// Longer lines are errors: a trace's longest line, a session with its token ids, has a few MiB, and a binary file
  /// may have no line end.
  static constexpr std::size_t longest_line = std::size_t{16} << 20;

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

// open_trace_file: opens a trace's file.

/// Opens `path` for reading. A folder is an error here, because opening it succeeds and reading it fails without a
/// reason.
inline Expected<std::unique_ptr<std::istream>> open_trace_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return Error{ErrorCode::bad_input, path, "this is a folder", "a file"};
  }
  std::unique_ptr<std::istream> file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file) return Error{ErrorCode::not_found, path, "the file cannot be opened", "a readable file"};
  return file;
}

// failed_text, no_request: what readers say of failed requests.

namespace detail {

/// "2 failed requests of 0 tokens left out"; empty if `count` is 0.
std::string failed_text(std::int64_t count);

/// The error of a trace that has no request, or only failed ones.
Error no_request(const std::string& name, std::int64_t failed);

} // namespace detail

// CsvRecords: the records of a CSV as fields without quotes.

/// RFC 4180, one record at a time: a quoted field may contain separators, line ends and doubled quotes. Blanks around
/// an unquoted field are dropped. The first record determines the separator.
class CsvRecords {
 public:
  explicit CsvRecords(LineReader lines) : lines_(std::move(lines)) {}

  /// Reads the next record's fields; returns false at the end.
  Expected<bool> next(std::vector<std::string>& fields);

  /// "trace.csv:17": the line where the last record begins.
  [[nodiscard]] std::string where() const { return lines_.name() + ":" + std::to_string(number_); }
  [[nodiscard]] const std::string& name() const { return lines_.name(); }
  /// Returns the fields' separator: comma, semicolon or tab; 0 before the first record.
  [[nodiscard]] char separator() const { return separator_; }

 private:
  /// Returns comma, semicolon or tab: the most frequent one outside quotes in the line.
  static char separator_of(std::string_view line);

  [[nodiscard]] bool blank(char character) const;
  void skip_blanks(std::string_view& text) const;
  [[nodiscard]] std::string_view trimmed(std::string_view text) const;

  LineReader lines_;
  std::int64_t number_ = 0; ///< the line where the record begins
  char separator_ = 0;      ///< 0 until the first record is read
};

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/line_reader.inl.hpp"
#endif
