// SPDX-License-Identifier: Apache-2.0
// JsonWriter: writes JSON incrementally, without a document in memory.
#pragma once

#include "sluice/core/utf8.hpp"

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// Appends JSON to a string. The caller must nest correctly; the writer inserts commas, escapes text and formats
/// numbers.
///
/// Numbers are the shortest decimal that reads back as the same double, so equal input gives equal bytes on every
/// machine; NaN and infinities are null. In text that is not UTF-8 (a file name), U+FFFD replaces stray bytes.
///
/// Rejected: a JSON library. A trace has a million events, and a library's document of them would take a hundred times
/// the memory of their text. Reports are never parsed, so a writer is enough. nlohmann/json is used to read JSON.
class JsonWriter {
 public:
  /// `script_safe` also escapes <, > and &, for text inside an HTML script element.
  explicit JsonWriter(std::string& out, bool script_safe = false) : out_(out), script_safe_(script_safe) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  JsonWriter& key(std::string_view name) {
    separate();
    text(name);
    out_ += ':';
    comma_ = false;
    return *this;
  }
  JsonWriter& value(std::string_view content) {
    separate();
    text(content);
    return *this;
  }
  JsonWriter& value(const char* content) { return value(std::string_view{content}); }
  template <std::same_as<bool> Bool>
  JsonWriter& value(Bool flag) {
    separate();
    out_ += flag ? "true" : "false";
    return *this;
  }
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool> && !std::same_as<Integer, char>)
  JsonWriter& value(Integer number) {
    separate();
    char digits[24];
    out_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
    return *this;
  }
  JsonWriter& value(double number) {
    if (!std::isfinite(number)) return null();
    separate();
    char digits[32];
    out_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
    return *this;
  }
  /// Writes a number rounded to `digits` significant digits. Used for plots, where six digits exceed a screen's
  /// precision.
  JsonWriter& rounded(double number, int digits) {
    if (!std::isfinite(number)) return null();
    separate();
    char text[48];
    out_.append(text, std::to_chars(text, text + sizeof text, number, std::chars_format::general, digits).ptr);
    return *this;
  }
  /// Writes n / 1000 with three exact decimals: a trace's microseconds from whole nanoseconds.
  JsonWriter& thousandths(std::int64_t n) {
    separate();
    if (n < 0 && n > -1000) out_ += '-'; // otherwise the integer part -0 would lose its sign
    out_ += std::to_string(n / 1000);
    const std::int64_t rest = n < 0 ? -(n % 1000) : n % 1000;
    out_ += '.';
    for (std::int64_t unit = 100; unit > 0; unit /= 10) out_ += static_cast<char>('0' + rest / unit % 10);
    return *this;
  }
  JsonWriter& null() {
    separate();
    out_ += "null";
    return *this;
  }
  template <class Value>
  JsonWriter& field(std::string_view name, const Value& content) {
    return key(name).value(content);
  }
  /// Makes the next element start on a new line, for people and for diff.
  JsonWriter& line(int indent = 0) {
    line_break_ = indent;
    return *this;
  }

 private:
  JsonWriter& open(char bracket) {
    separate();
    out_ += bracket;
    comma_ = false;
    return *this;
  }
  JsonWriter& close(char bracket) {
    if (line_break_ >= 0) new_line();
    out_ += bracket;
    comma_ = true;
    return *this;
  }
  void separate() {
    if (comma_) out_ += ',';
    if (line_break_ >= 0) new_line();
    comma_ = true;
  }
  void new_line() {
    out_ += '\n';
    out_.append(static_cast<std::size_t>(line_break_), ' ');
    line_break_ = -1;
  }

  void text(std::string_view content) {
    out_ += '"';
    while (!content.empty()) {
      const Utf8Step step = next_utf8(content);
      const bool whole = step.kind == Utf8Kind::whole;
      const std::size_t bytes = whole ? static_cast<std::size_t>(step.bytes) : 1; // each stray byte is replaced
      if (!whole)
        out_ += "\xEF\xBF\xBD";
      else if (bytes == 1)
        character(content.front());
      else
        out_ += content.substr(0, bytes);
      content.remove_prefix(bytes);
    }
    out_ += '"';
  }
  void character(char c) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (control || (script_safe_ && (c == '<' || c == '>' || c == '&'))) {
      constexpr std::string_view hex = "0123456789abcdef";
      out_ += "\\u00";
      out_ += hex[static_cast<unsigned char>(c) >> 4];
      out_ += hex[static_cast<unsigned char>(c) & 15];
    } else {
      out_ += c;
    }
  }

  std::string& out_;
  bool script_safe_;
  bool comma_ = false;
  int line_break_ = -1;
};

} // namespace sluice
