// SPDX-License-Identifier: Apache-2.0
// JsonWriter: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/utf8.hpp"
#include "sluice/report/observer/json_writer.hpp"

#include <cmath>
#include <cstddef>

namespace sluice {

SLUICE_INLINE JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  text(name);
  out_ += ':';
  comma_ = false;
  return *this;
}

SLUICE_INLINE JsonWriter& JsonWriter::value(std::string_view content) {
  separate();
  text(content);
  return *this;
}

SLUICE_INLINE JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  char digits[32];
  out_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
  return *this;
}

SLUICE_INLINE JsonWriter& JsonWriter::rounded(double number, int digits) {
  if (!std::isfinite(number)) return null();
  separate();
  char text[48];
  out_.append(text, std::to_chars(text, text + sizeof text, number, std::chars_format::general, digits).ptr);
  return *this;
}

SLUICE_INLINE JsonWriter& JsonWriter::thousandths(std::int64_t n) {
  separate();
  if (n < 0 && n > -1000) out_ += '-'; // otherwise the integer part -0 would lose its sign
  out_ += std::to_string(n / 1000);
  const std::int64_t rest = n < 0 ? -(n % 1000) : n % 1000;
  out_ += '.';
  for (std::int64_t unit = 100; unit > 0; unit /= 10) out_ += static_cast<char>('0' + rest / unit % 10);
  return *this;
}

SLUICE_INLINE JsonWriter& JsonWriter::null() {
  separate();
  out_ += "null";
  return *this;
}

SLUICE_INLINE JsonWriter& JsonWriter::line(int indent) {
  line_break_ = indent;
  return *this;
}

SLUICE_INLINE JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  comma_ = false;
  return *this;
}

SLUICE_INLINE JsonWriter& JsonWriter::close(char bracket) {
  if (line_break_ >= 0) new_line();
  out_ += bracket;
  comma_ = true;
  return *this;
}

SLUICE_INLINE void JsonWriter::separate() {
  if (comma_) out_ += ',';
  if (line_break_ >= 0) new_line();
  comma_ = true;
}

SLUICE_INLINE void JsonWriter::new_line() {
  out_ += '\n';
  out_.append(static_cast<std::size_t>(line_break_), ' ');
  line_break_ = -1;
}

SLUICE_INLINE void JsonWriter::text(std::string_view content) {
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

SLUICE_INLINE void JsonWriter::character(char c) {
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

} // namespace sluice
