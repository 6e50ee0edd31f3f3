// SPDX-License-Identifier: Apache-2.0
// LineReader: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/workload/line_reader.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
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
        return Error{ErrorCode::bad_input, where(), "the line is longer than 16 MiB", "one request a line"};
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

SLUICE_READERS_INLINE std::string detail::failed_text(std::int64_t count) {
  if (count == 0) return {};
  return std::to_string(count) + " failed request" + (count > 1 ? "s" : "") + " of 0 tokens left out";
}

SLUICE_READERS_INLINE Error detail::no_request(const std::string& name, std::int64_t failed) {
  return {ErrorCode::bad_input, name, "the trace holds no request" + (failed > 0 ? ", " + failed_text(failed) : ""),
          "at least one request"};
}

SLUICE_READERS_INLINE Expected<bool> CsvRecords::next(std::vector<std::string>& fields) {
  fields.clear();
  Expected<std::optional<std::string_view>> line = lines_.next();
  while (line && *line && std::all_of((*line)->begin(), (*line)->end(), [this](char c) { return blank(c); }))
    line = lines_.next(); // a line that contains only blanks counts as empty
  if (!line) return line.error();
  if (!*line) return false;
  number_ = lines_.number();
  if (separator_ == 0) separator_ = separator_of(**line);
  std::string_view rest = **line;
  for (;;) {
    std::string& field = fields.emplace_back();
    skip_blanks(rest);
    if (!rest.starts_with('"')) {
      const std::size_t end = std::min(rest.find(separator_), rest.size());
      field = trimmed(rest.substr(0, end));
      rest.remove_prefix(end);
    } else {
      rest.remove_prefix(1);
      for (;;) { // up to the closing quote, on this line or a later one
        const std::size_t quote = rest.find('"');
        field += rest.substr(0, quote);
        if (quote != std::string_view::npos) {
          rest.remove_prefix(quote + 1);
          if (!rest.starts_with('"')) break;
          field += '"';
          rest.remove_prefix(1);
          continue;
        }
        field += '\n';
        if (field.size() > LineReader::longest_line)
          return Error{ErrorCode::bad_input, where(), "a quoted field is longer than 16 MiB", "a closing quote"};
        line = lines_.next();
        if (!line) return line.error();
        if (!*line) return Error{ErrorCode::bad_input, where(), "a quoted field has no end", "a closing quote"};
        rest = **line;
      }
      skip_blanks(rest);
      if (!rest.empty() && rest.front() != separator_)
        return Error{ErrorCode::bad_input, where(), "there is text behind a quoted field",
                     "quotes around whole fields, and doubled within"};
    }
    if (rest.empty()) return true;
    rest.remove_prefix(1);
  }
}

SLUICE_READERS_INLINE char CsvRecords::separator_of(std::string_view line) {
  constexpr std::array<char, 3> known{',', ';', '\t'};
  std::array<std::size_t, 3> count{};
  bool quoted = false;
  for (const char character : line) {
    if (character == '"') quoted = !quoted;
    for (std::size_t i = 0; i < known.size(); ++i)
      if (!quoted && character == known[i]) ++count[i];
  }
  std::size_t most = 0;
  for (std::size_t i = 1; i < known.size(); ++i)
    if (count[i] > count[most]) most = i;
  return known[most];
}

SLUICE_READERS_INLINE bool CsvRecords::blank(char character) const {
  return (character == ' ' || character == '\t') && character != separator_;
}

SLUICE_READERS_INLINE void CsvRecords::skip_blanks(std::string_view& text) const {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
}

SLUICE_READERS_INLINE std::string_view CsvRecords::trimmed(std::string_view text) const {
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

} // namespace sluice
