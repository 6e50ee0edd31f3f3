// SPDX-License-Identifier: Apache-2.0
// Pattern: a regular expression over UTF-8, as in tokenizer.json files (ICU).
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"

#include <unicode/uregex.h>
#include <unicode/ustring.h>
#include <unicode/utext.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

namespace detail {

struct IcuRegexCloser {
  void operator()(URegularExpression* regex) const { uregex_close(regex); }
};
using IcuRegex = std::unique_ptr<URegularExpression, IcuRegexCloser>;

struct IcuTextCloser {
  void operator()(UText* text) const { utext_close(text); }
};
using IcuText = std::unique_ptr<UText, IcuTextCloser>;

/// UTF-8 to UTF-16; parts that are not UTF-8 become U+FFFD.
[[nodiscard]] inline Expected<std::u16string> utf16_of(std::string_view text) {
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

} // namespace detail

/// A compiled pattern. For the patterns of the known model families it means the same in ICU and in Oniguruma, which
/// Hugging Face's tokenizers use (checked against a third implementation: tests/reference).
class Pattern {
 public:
  enum class Kind : std::uint8_t { regex, literal };

  /// `where` opens the error's line.
  [[nodiscard]] static Expected<Pattern> compile(std::string_view pattern, Kind kind, const std::string& where) {
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

  /// Calls visit(begin, end) for each non-empty match in `text`, in order. The pattern sees parts that are not UTF-8 as
  /// U+FFFD. Error: a match needs seconds or megabytes, as some patterns can.
  template <class Visit>
  [[nodiscard]] Status each_match(std::string_view text, Visit visit) const {
    UErrorCode status = U_ZERO_ERROR;
    // A regex object matches one text at a time, and several threads encode: each call has its own, which shares the
    // compiled pattern.
    const detail::IcuRegex regex(uregex_clone(regex_.get(), &status));
    const detail::IcuText view(utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status));
    constexpr std::int32_t longest_match = 2000; // steps of about a millisecond
    uregex_setTimeLimit(regex.get(), longest_match, &status);
    uregex_setUText(regex.get(), view.get(), &status);
    while (U_SUCCESS(status) != 0 && uregex_findNext(regex.get(), &status) != 0) {
      const auto begin = static_cast<std::size_t>(uregex_start64(regex.get(), 0, &status));
      const auto end = static_cast<std::size_t>(uregex_end64(regex.get(), 0, &status));
      if (U_SUCCESS(status) != 0 && begin < end) visit(begin, end);
    }
    if (U_SUCCESS(status) != 0) return {};
    return Error{ErrorCode::unsupported, "text",
                 std::string{"the tokenizer's pattern failed on it ("} + u_errorName(status) + ")",
                 "a text that the pattern can be matched with"};
  }

 private:
  explicit Pattern(detail::IcuRegex regex) : regex_(std::move(regex)) {}

  detail::IcuRegex regex_;
};

} // namespace sluice
