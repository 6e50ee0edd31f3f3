// SPDX-License-Identifier: Apache-2.0
// LineReader: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/trace_file.hpp"

#include <utility>

namespace sluice {

SLUICE_READERS_INLINE LineReader::LineReader(std::unique_ptr<std::istream> stream, std::string name)
    : stream_(std::move(stream)), name_(std::move(name)) {}

SLUICE_READERS_INLINE Expected<LineReader> LineReader::open(const std::string& path) {
  Expected<std::unique_ptr<std::istream>> file = open_trace_file(path);
  if (!file) return file.error();
  return LineReader{std::move(*file), path};
}

SLUICE_READERS_INLINE Expected<std::optional<std::string_view>> LineReader::next() {
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

SLUICE_READERS_INLINE bool LineReader::refill() {
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

} // namespace sluice
