// SPDX-License-Identifier: Apache-2.0
// SseParser: server-sent events out of a stream of bytes (WHATWG HTML, 9.2), however the bytes were cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace loading {

/// Gives the data of each event. A line may end with LF, CR or CRLF; data of several lines is joined by LF; comments
/// and the fields event, id and retry are passed over; any other line is counted as unknown.
class SseParser {
 public:
  /// Calls `event(data)` for every event that these bytes complete.
  template <class Event>
  void feed(std::string_view bytes, Event&& event) {
    while (!bytes.empty()) {
      if (after_return_ && bytes.front() == '\n') {
        bytes.remove_prefix(1);
        after_return_ = false;
        continue;
      }
      after_return_ = false;
      const std::size_t end = end_of_line(bytes);
      if (end == std::string_view::npos) {
        line_.append(bytes);
        return;
      }
      after_return_ = bytes[end] == '\r';
      const std::string_view rest = bytes.substr(0, end);
      if (line_.empty()) {
        take(rest, event);
      } else {
        line_.append(rest);
        take(line_, event);
        line_.clear();
      }
      bytes.remove_prefix(end + 1);
    }
  }

  /// Whether nothing is left of an event that has begun: what a stream ends with is lost otherwise.
  [[nodiscard]] bool between_events() const { return line_.empty() && !has_data_; }
  [[nodiscard]] std::int64_t unknown_lines() const { return unknown_; }

 private:
  static std::size_t end_of_line(std::string_view bytes) {
    const std::size_t feed = bytes.find('\n');
    const std::size_t carriage = bytes.substr(0, feed).find('\r');
    return carriage != std::string_view::npos ? carriage : feed;
  }

  template <class Event>
  void take(std::string_view line, Event&& event) {
    if (line.empty()) {
      if (has_data_) event(std::string_view{data_});
      data_.clear();
      has_data_ = false;
      return;
    }
    const std::size_t colon = line.find(':');
    const std::string_view field = line.substr(0, colon);
    std::string_view value = colon == std::string_view::npos ? std::string_view{} : line.substr(colon + 1);
    if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (field == "data") {
      if (has_data_) data_ += '\n';
      data_.append(value);
      has_data_ = true;
    } else if (!field.empty() && field != "event" && field != "id" && field != "retry") {
      ++unknown_;
    }
  }

  std::string line_; ///< that has begun
  std::string data_; ///< of the event that has begun
  bool has_data_ = false;
  bool after_return_ = false; ///< a CR has ended a line: a LF right behind it belongs to that end
  std::int64_t unknown_ = 0;
};

} // namespace loading
