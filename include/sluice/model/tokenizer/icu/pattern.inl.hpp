// SPDX-License-Identifier: Apache-2.0
// Pattern: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/tokenizer/icu/pattern.hpp"

namespace sluice::detail {

SLUICE_MODEL_INLINE Expected<std::u16string> utf16_of(std::string_view text) {
  std::u16string wide(text.size(), u'\0'); // never more units than bytes
  std::int32_t length = 0;
  UErrorCode status = U_ZERO_ERROR;
  u_strFromUTF8WithSub(wide.data(), static_cast<std::int32_t>(wide.size()), &length, text.data(),
                       static_cast<std::int32_t>(text.size()), 0xFFFD, nullptr, &status);
  if (U_FAILURE(status) != 0) return Error{ErrorCode::bad_input, "text", u_errorName(status), "UTF-8"};
  wide.resize(static_cast<std::size_t>(length));
  return wide;
}

/// `pattern` with each \s and \S as a set. ICU runs a loop over a set in constant memory, but a loop over \s with a
/// stack frame per iteration: 200,000 spaces were too many. Within a set the extra brackets change nothing.
[[nodiscard]] inline std::string with_sets_for_spaces(std::string_view pattern) {
  if (pattern.find("\\Q") != std::string_view::npos) return std::string(pattern); // quoted: all of it is literal
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool escape = pattern[i] == '\\' && i + 1 < pattern.size();
    if (escape && pattern[i + 1] == 's') {
      text += "[\\s]";
    } else if (escape && pattern[i + 1] == 'S') {
      text += "[^\\s]";
    } else {
      text += pattern[i];
      if (escape) text += pattern[i + 1];
    }
    if (escape) ++i;
  }
  return text;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_MODEL_INLINE Expected<Pattern> Pattern::compile(std::string_view pattern, Kind kind, const std::string& where) {
  constexpr std::size_t longest = 1 << 14;
  if (pattern.empty() || pattern.size() > longest) {
    return Error{ErrorCode::bad_input, where, "the pattern has " + std::to_string(pattern.size()) + " bytes",
                 "from 1 to " + std::to_string(longest)};
  }
  const Expected<std::u16string> wide =
      detail::utf16_of(kind == Kind::regex ? detail::with_sets_for_spaces(pattern) : std::string(pattern));
  if (!wide) return wide.error();
  UErrorCode status = U_ZERO_ERROR;
  UParseError place{};
  detail::IcuRegex regex(uregex_open(wide->data(), static_cast<std::int32_t>(wide->size()),
                                     kind == Kind::literal ? static_cast<std::uint32_t>(UREGEX_LITERAL) : 0U, &place,
                                     &status));
  if (U_FAILURE(status) != 0) {
    return Error{ErrorCode::bad_input, where,
                 "the pattern '" + excerpt(pattern) + "' cannot be read (" + u_errorName(status) + ")",
                 "a regular expression of ICU"};
  }
  return Pattern(std::move(regex));
}

} // namespace sluice
