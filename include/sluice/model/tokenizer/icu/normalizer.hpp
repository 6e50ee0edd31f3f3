// SPDX-License-Identifier: Apache-2.0
// Normalizer: changes a text before it is cut into pieces, with ICU. Pattern: regular expressions over UTF-8.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

#include <unicode/unorm2.h>
#include <unicode/uregex.h>
#include <unicode/ustring.h>
#include <unicode/utext.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

// Pattern: a regular expression over UTF-8, as in tokenizer.json files (ICU).

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

/// "NFC", "NFD", "NFKC" or "NFKD": Unicode Standard Annex 15. Parts that are not UTF-8 stay unchanged.
class NormalForm {
 public:
  [[nodiscard]] static bool knows(std::string_view name);
  /// `name` must be one of these.
  [[nodiscard]] static Expected<NormalForm> named(std::string_view name);

  [[nodiscard]] Expected<std::string> apply(std::string_view text) const;

 private:
  explicit NormalForm(const UNormalizer2* form) : form_(form) {}

  [[nodiscard]] Status append(std::string_view whole, std::string& out) const;

  const UNormalizer2* form_; ///< ICU's own; never freed
};

/// Puts `prefix` before a text that is not empty.
struct PrependText {
  std::string prefix;
};

/// Replaces each match by `content`.
struct ReplaceText {
  Pattern pattern;
  std::string content;
};

/// The steps of a file's `normalizer`, in order; possibly none.
class Normalizer {
 public:
  using Step = std::variant<NormalForm, PrependText, ReplaceText>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  [[nodiscard]] bool empty() const { return steps_.empty(); }

  [[nodiscard]] Expected<std::string> apply(std::string text) const;

 private:
  static Expected<std::string> apply_step(const NormalForm& form, const std::string& text) { return form.apply(text); }
  static Expected<std::string> apply_step(const PrependText& prepend, const std::string& text);
  static Expected<std::string> apply_step(const ReplaceText& replace, const std::string& text);

  std::vector<Step> steps_;
};

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/icu/normalizer.inl.hpp"
#endif
