// SPDX-License-Identifier: Apache-2.0
// HttpHead: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/http_framing.hpp"

#include <algorithm>

namespace sluice::detail {

/// Returns whether this is a character of methods and field names (RFC 9110 5.6.2).
[[nodiscard]] constexpr bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view{"!#$%&'*+-.^_`|~"}.find(c) != std::string_view::npos;
}

[[nodiscard]] inline bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

/// Returns whether this is a character of field values (RFC 9110 5.5).
[[nodiscard]] constexpr bool is_value_char(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

/// Returns whether this is a character of a host and its port (RFC 9110 7.2, RFC 3986 3.2.2).
[[nodiscard]] constexpr bool is_host_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view{"-._~%!$&'()*+;=:[]"}.find(c) != std::string_view::npos;
}

[[nodiscard]] constexpr char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

/// Compares `text` with `lower`, which is in lower case, and ignores case.
[[nodiscard]] inline bool is_word(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return lower_case(a) == b; });
}

[[nodiscard]] inline std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_SERVER_INLINE bool HttpHead::look(std::string_view text) {
  for (; at_ < text.size() && end_ == 0; ++at_) {
    const char c = text[at_];
    const char before = at_ == 0 ? '\0' : text[at_ - 1];
    if (c == '\n' && before != '\r') return no("a line ends in LF without CR (RFC 9112 2.2)");
    if (before == '\r' && c != '\n') return no("a CR stands without LF (RFC 9112 2.2)");
    if (at_ == begin_ && c != '\r' && c != '\n' && !detail::is_token_char(c))
      return no("its first character begins no method (RFC 9112 3)");
    if (c != '\n') continue;
    if (at_ == 1) // RFC 9112 2.2: a server ignores one empty line before the request
      begin_ = 2;
    else if (text.substr(begin_, at_ + 1 - begin_) == "\r\n")
      return no("empty lines precede it (RFC 9112 2.2)");
    else if (at_ >= begin_ + 3 && text.substr(at_ - 3, 4) == "\r\n\r\n")
      end_ = at_ + 1;
  }
  return true;
}

SLUICE_SERVER_INLINE bool HttpHead::no(const char* wrong) {
  wrong_ = wrong;
  return false;
}

SLUICE_SERVER_INLINE std::string wrong_framing(std::string_view head) {
  const auto line = [&] {
    const std::size_t end = head.find("\r\n");
    const std::string_view one = head.substr(0, end);
    head.remove_prefix(std::min(head.size(), end == std::string_view::npos ? end : end + 2));
    return one;
  };
  const std::string_view request = line();
  const std::size_t first = request.find(' '), last = request.rfind(' ');
  if (first == std::string_view::npos || first == last || !detail::is_token(request.substr(0, first)))
    return "its first line is not METHOD TARGET VERSION with single spaces (RFC 9112 3)";
  const std::string_view target = request.substr(first + 1, last - first - 1), version = request.substr(last + 1);
  if (!std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; }))
    return "its target has a character that no URI has (RFC 9112 3.2)";
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return "its version is not HTTP/1.1 or HTTP/1.0 (RFC 9112 2.3)";

  int hosts = 0, lengths = 0, codings = 0, keys = 0, types = 0, origins = 0;
  for (std::string_view field = line(); !field.empty(); field = line()) {
    if (field.front() == ' ' || field.front() == '\t') return "a line begins with white space (RFC 9112 2.2 and 5.2)";
    const std::size_t colon = field.find(':');
    const std::string_view name = field.substr(0, colon);
    if (colon == std::string_view::npos || !detail::is_token(name))
      return "a line is not NAME:VALUE without white space before the colon (RFC 9112 5.1)";
    const std::string_view value = detail::without_blanks(field.substr(colon + 1));
    if (!std::all_of(value.begin(), value.end(), detail::is_value_char))
      return "a field's value has a control character (RFC 9110 5.5)";
    if (detail::is_word(name, "host")) {
      if (++hosts > 1) return "it has Host more than once (RFC 9112 3.2)";
      if (!std::all_of(value.begin(), value.end(), detail::is_host_char))
        return "its Host is no host and port (RFC 9112 3.2)";
    } else if (detail::is_word(name, "content-length")) {
      constexpr std::size_t most_digits = 18; // every such number fits in 63 bits
      if (++lengths > 1) return "it has Content-Length more than once (RFC 9112 6.3)";
      if (value.empty() || !std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; }) ||
          value.size() > most_digits)
        return "its Content-Length is not one number of at most 18 digits (RFC 9112 6.3)";
    } else if ((detail::is_word(name, "authorization") && ++keys > 1) ||
               (detail::is_word(name, "content-type") && ++types > 1) ||
               (detail::is_word(name, "origin") && ++origins > 1)) {
      return "it has " + std::string{name} + " more than once (RFC 9110 5.3)"; // a router may use another one
    } else if (detail::is_word(name, "transfer-encoding")) {
      if (++codings > 1 || !detail::is_word(value, "chunked"))
        return "its Transfer-Encoding is not `chunked`, once and alone (RFC 9112 6.1 and 6.3)";
    }
  }
  if (hosts == 0 && version == "HTTP/1.1") return "it has no Host (RFC 9112 3.2)";
  if (codings > 0 && lengths > 0) return "it has both Transfer-Encoding and Content-Length (RFC 9112 6.3)";
  if (codings > 0 && version == "HTTP/1.0") return "HTTP/1.0 has no Transfer-Encoding (RFC 9112 6.1)";
  return {};
}

SLUICE_SERVER_INLINE bool folds_trailer(std::string_view text) {
  // From the end: fields of the trailer, until the line of the last chunk, which is no field.
  if (text.ends_with("\r\n")) text.remove_suffix(2);
  while (text.ends_with("\r\n")) {
    text.remove_suffix(2);
    const std::size_t end = text.rfind("\r\n");
    const std::string_view line = end == std::string_view::npos ? text : text.substr(end + 2);
    if (line.starts_with(' ') || line.starts_with('\t')) return true;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !detail::is_token(line.substr(0, colon))) return false;
    text.remove_suffix(line.size());
  }
  return false;
}

} // namespace sluice
