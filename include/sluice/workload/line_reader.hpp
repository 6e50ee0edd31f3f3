// SPDX-License-Identifier: Apache-2.0
// LineReader: the numbered lines of a text stream, in constant memory.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/trace_file.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// The lines of a stream, without line end (LF or CRLF; or CR, if the first line ends with it, as in a spreadsheet's
/// "CSV (Macintosh)") and without a leading byte order mark. Empty lines are skipped, but counted.
class LineReader {
 public:
  /// Longer lines are errors: a trace's longest line has a few KiB, and a binary file may have no line end.
  static constexpr std::size_t longest_line = std::size_t{1} << 20;

  /// Error messages begin with `name`, a file's path.
  LineReader(std::unique_ptr<std::istream> stream, std::string name)
      : stream_(std::move(stream)), name_(std::move(name)) {}

  static Expected<LineReader> open(const std::string& path) {
    Expected<std::unique_ptr<std::istream>> file = open_trace_file(path);
    if (!file) return file.error();
    return LineReader{std::move(*file), path};
  }

  /// Returns the next line, valid until the next call, or nothing at the end.
  Expected<std::optional<std::string_view>> next() {
    for (;;) {
      line_.clear();
      if (!refill()) {
        if (stream_->bad()) return Error{ErrorCode::bad_input, where(), "reading fails here", "a readable file"};
        return std::optional<std::string_view>{};
      }
      ++number_;
      for (bool open = true; open && refill();) {
        const std::string_view rest(buffer_->data() + begin_, end_ - begin_);
        const std::size_t newline = rest.find(line_end_);
        open = newline == std::string_view::npos;
        line_ += rest.substr(0, newline);
        begin_ += open ? rest.size() : newline + 1;
        if (line_.size() > longest_line) {
          return Error{ErrorCode::bad_input, where(), "the line is longer than 1 MiB", "one request a line"};
        }
      }
      if (number_ == 1 && line_.rfind("\xef\xbb\xbf", 0) == 0) line_.erase(0, 3);
      if (!line_.empty() && line_.back() == '\r') line_.pop_back();
      if (!line_.empty()) return std::optional<std::string_view>{line_};
    }
  }

  /// "trace.csv:17": the position of the last line.
  [[nodiscard]] std::string where() const { return name_ + ":" + std::to_string(number_); }
  [[nodiscard]] std::int64_t number() const { return number_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  /// Returns whether a character is available. Reads through the stream, whose `read` never throws, not through its
  /// buffer.
  bool refill() {
    if (begin_ < end_) return true;
    stream_->read(buffer_->data(), static_cast<std::streamsize>(buffer_->size()));
    begin_ = 0;
    end_ = static_cast<std::size_t>(stream_->gcount());
    if (line_end_ == 0) {
      const std::string_view first(buffer_->data(), end_ == buffer_->size() ? end_ - 1 : end_); // CR and LF may be in
                                                                                                // different buffers
      const bool returns = first.find('\r') != first.npos && first.find('\n') == first.npos;
      line_end_ = returns ? '\r' : '\n';
    }
    return end_ > 0;
  }

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
