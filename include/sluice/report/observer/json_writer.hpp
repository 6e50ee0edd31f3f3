// SPDX-License-Identifier: Apache-2.0
// JsonWriter: writes JSON incrementally, without a document in memory.
#pragma once

#include "sluice/core/compiled.hpp"

#include <charconv>
#include <concepts>
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

  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view content);
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
  JsonWriter& value(double number);
  /// Writes a number rounded to `digits` significant digits. Used for plots, where six digits exceed a screen's
  /// precision.
  JsonWriter& rounded(double number, int digits);
  /// Writes n / 1000 with three exact decimals: a trace's microseconds from whole nanoseconds.
  JsonWriter& thousandths(std::int64_t n);
  JsonWriter& null();
  template <class Value>
  JsonWriter& field(std::string_view name, const Value& content) {
    return key(name).value(content);
  }
  /// Makes the next element start on a new line, for people and for diff.
  JsonWriter& line(int indent = 0);

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void new_line();

  void text(std::string_view content);
  void character(char c);

  std::string& out_;
  bool script_safe_;
  bool comma_ = false;
  int line_break_ = -1;
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/json_writer.inl.hpp"
#endif
