// SPDX-License-Identifier: Apache-2.0
// JsonMembers: reads the members of a JSON object from a stream, one at a time, in constant memory.
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// Iterates over the members of an object and of its nested objects, with at most one value in memory.
///
/// nlohmann's parsers read their input to its end: a DOM holds the whole trace, and the SAX interface pushes events and
/// cannot pause, so neither returns one request at a time. This class finds where values begin and end; nlohmann parses
/// each value.
class JsonMembers {
 public:
  /// Longer values are errors, so that memory is bounded for every file.
  static constexpr std::size_t longest_value = std::size_t{1} << 20;

  static constexpr std::size_t deepest = 64;

  JsonMembers(std::istream& stream, std::string name) : stream_(&stream), name_(std::move(name)) {}

  /// Steps into the object that begins here.
  Status enter() {
    if (skip_blanks() != '{') return broken("this is not an object", "{");
    take();
    first_ = true;
    return {};
  }

  /// Moves to the next member of the object and reads its key; false at the object's end, which is consumed. The
  /// member's value must be taken (`value`, `skip` or `enter`) before the next call.
  Expected<bool> next(std::string& key) {
    int character = skip_blanks();
    if (character == '}') {
      take();
      first_ = false; // the object was a member of its parent
      return false;
    }
    if (!first_) {
      if (character != ',') return broken("this is not JSON", "a comma or }");
      take();
      character = skip_blanks();
    }
    first_ = false;
    if (character != '"') return broken("this is not JSON", "a key in quotes");
    std::string text;
    if (Status status = copy_string(&text); !status) return status.error();
    const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
    if (!parsed.is_string()) return broken("this is no valid key", "a key in quotes");
    key = parsed.get<std::string>();
    if (skip_blanks() != ':') return broken("this is not JSON", "a colon");
    take();
    skip_blanks();
    value_line_ = line_;
    return true;
  }

  /// Returns the current member's value, parsed.
  Expected<nlohmann::json> value() {
    std::string text;
    if (Status status = copy_value(&text); !status) return status.error();
    nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
    if (parsed.is_discarded()) {
      return Error{ErrorCode::bad_input, where(), "this is not JSON: " + excerpt(text), "a JSON value"};
    }
    return parsed;
  }

  /// Skips the current member's value, which may exceed `longest_value`.
  Status skip() { return copy_value(nullptr); }

  /// Returns an error unless the rest of the stream is blank.
  Status end() {
    if (skip_blanks() == eof) return {};
    return broken("there is text behind the object", "the end of the file");
  }

  /// "trace.json:17": the position of the current member's value.
  [[nodiscard]] std::string where() const { return name_ + ":" + std::to_string(value_line_); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  static constexpr int eof = std::char_traits<char>::eof();

  int take() {
    const int character = stream_->get();
    line_ += character == '\n';
    return character;
  }
  int skip_blanks() {
    for (;;) {
      const int character = stream_->peek();
      if (character != ' ' && character != '\t' && character != '\n' && character != '\r') return character;
      take();
    }
  }

  [[nodiscard]] Error broken(const char* what, const char* expected) {
    const bool truncated = stream_->peek() == eof;
    return Error{ErrorCode::bad_input, name_ + ":" + std::to_string(line_),
                 truncated ? "the JSON ends too early" : what, expected};
  }

  Status append(std::string* text, int character) {
    if (text == nullptr) return {};
    if (text->size() >= longest_value) return broken("the value is longer than 1 MiB", "a value of one request");
    *text += static_cast<char>(character);
    return {};
  }

  /// Copies a string from its first quote to its last, or skips it if `text` is null.
  Status copy_string(std::string* text) {
    bool escaped = false;
    for (bool open = false;;) {
      const int character = stream_->peek();
      if (character == eof || character == '\n') return broken("the string does not end on its line", "a quote");
      take();
      if (Status status = append(text, character); !status) return status;
      if (escaped) {
        escaped = false;
      } else if (character == '\\') {
        escaped = true;
      } else if (character == '"') {
        if (open) return {};
        open = true;
      }
    }
  }

  Status copy_value(std::string* text) {
    const int first = stream_->peek();
    if (first == '"') return copy_string(text);
    if (first == '{' || first == '[') return copy_brackets(text);
    return copy_plain(text);
  }

  /// Copies a number or a literal, up to the next blank, comma or bracket.
  Status copy_plain(std::string* text) {
    for (bool any = false;; any = true) {
      const int character = stream_->peek();
      if (character == eof) return broken("the value does not end", "a complete JSON value");
      if (std::string_view{" \t\r\n,}]"}.find(static_cast<char>(character)) != std::string_view::npos) {
        if (any) return {};
        return broken("there is no value", "a JSON value");
      }
      take();
      if (Status status = append(text, character); !status) return status;
    }
  }

  /// Copies an object or an array up to its matching bracket. The depth is bounded, so that a file of opening brackets
  /// does not exhaust memory.
  Status copy_brackets(std::string* text) {
    std::string open;
    do {
      const int character = stream_->peek();
      if (character == '"') {
        if (Status status = copy_string(text); !status) return status;
        continue;
      }
      if (character == eof) return broken("the value does not end", "a complete JSON value");
      if (character == '}' || character == ']') {
        if (open.back() != (character == '}' ? '{' : '[')) {
          return broken("the brackets do not match", open.back() == '{' ? "}" : "]");
        }
        open.pop_back();
      } else if (character == '{' || character == '[') {
        if (open.size() >= deepest) return broken("the value is nested too deep", "at most 64 levels");
        open += static_cast<char>(character);
      }
      take();
      if (Status status = append(text, character); !status) return status;
    } while (!open.empty());
    return {};
  }

  std::istream* stream_; // read through its own functions, which never throw, not through its buffer
  std::string name_;
  std::int64_t line_ = 1;
  std::int64_t value_line_ = 1;
  bool first_ = true;
};

} // namespace sluice
