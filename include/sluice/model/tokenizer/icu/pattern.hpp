// SPDX-License-Identifier: Apache-2.0
// Pattern: a regular expression over UTF-8, as in tokenizer.json files (ICU).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

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

/// UTF-8 to UTF-16; parts that are not UTF-8 become U+FFFD.
[[nodiscard]] Expected<std::u16string> utf16_of(std::string_view text);

struct IcuRegexCloser {
  void operator()(URegularExpression* regex) const { uregex_close(regex); }
};
using IcuRegex = std::unique_ptr<URegularExpression, IcuRegexCloser>;

struct IcuTextCloser {
  void operator()(UText* text) const { utext_close(text); }
};
using IcuText = std::unique_ptr<UText, IcuTextCloser>;

} // namespace detail

/// A compiled pattern. For the patterns of the known model families it means the same in ICU and in Oniguruma, which
/// Hugging Face's tokenizers use (checked against a third implementation: tests/reference).
class Pattern {
 public:
  enum class Kind : std::uint8_t { regex, literal };

  /// `where` opens the error's line.
  [[nodiscard]] static Expected<Pattern> compile(std::string_view pattern, Kind kind, const std::string& where);

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

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/icu/pattern.inl.hpp"
#endif
