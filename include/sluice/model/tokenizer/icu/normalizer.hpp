// SPDX-License-Identifier: Apache-2.0
// Normalizer: changes a text before it is cut into pieces (with ICU for Unicode's normal forms).
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/icu/pattern.hpp"

#include <unicode/unorm2.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

/// "NFC", "NFD", "NFKC" or "NFKD": Unicode Standard Annex 15. Parts that are not UTF-8 stay unchanged.
class NormalForm {
 public:
  [[nodiscard]] static bool knows(std::string_view name) {
    return name == "NFC" || name == "NFD" || name == "NFKC" || name == "NFKD";
  }
  /// `name` must be one of these.
  [[nodiscard]] static Expected<NormalForm> named(std::string_view name) {
    SLUICE_ASSERT(knows(name), "a normal form");
    UErrorCode status = U_ZERO_ERROR;
    const UNormalizer2* form = name == "NFC"    ? unorm2_getNFCInstance(&status)
                               : name == "NFD"  ? unorm2_getNFDInstance(&status)
                               : name == "NFKC" ? unorm2_getNFKCInstance(&status)
                                                : unorm2_getNFKDInstance(&status);
    if (U_FAILURE(status) != 0)
      return Error{ErrorCode::unsupported, std::string(name), u_errorName(status), "ICU with its data"};
    return NormalForm(form);
  }

  [[nodiscard]] Expected<std::string> apply(std::string_view text) const {
    std::string out;
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t begin = at;
      Utf8Step step;
      while (at < text.size() && (step = next_utf8(text.substr(at))).kind == Utf8Kind::whole)
        at += static_cast<std::size_t>(step.bytes);
      if (Status status = append(text.substr(begin, at - begin), out); !status) return status.error();
      if (at == text.size()) break;
      out += text.substr(at, static_cast<std::size_t>(step.bytes));
      at += static_cast<std::size_t>(step.bytes);
    }
    return out;
  }

 private:
  explicit NormalForm(const UNormalizer2* form) : form_(form) {}

  [[nodiscard]] Status append(std::string_view whole, std::string& out) const {
    if (std::all_of(whole.begin(), whole.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0x80; })) {
      out += whole; // ASCII is in all four forms
      return {};
    }
    const Expected<std::u16string> wide = detail::utf16_of(whole);
    if (!wide) return wide.error();
    std::u16string form(wide->size() + wide->size() / 2 + 16, u'\0');
    UErrorCode status = U_ZERO_ERROR;
    std::int32_t length = 0;
    for (int turn = 0; turn < 2; ++turn) { // the second, if the first reports that it needs more room
      status = U_ZERO_ERROR;
      length = unorm2_normalize(form_, wide->data(), static_cast<std::int32_t>(wide->size()), form.data(),
                                static_cast<std::int32_t>(form.size()), &status);
      if (status != U_BUFFER_OVERFLOW_ERROR) break;
      form.resize(static_cast<std::size_t>(length));
    }
    std::string bytes(3 * static_cast<std::size_t>(length), '\0');
    u_strToUTF8(bytes.data(), static_cast<std::int32_t>(bytes.size()), &length, form.data(), length, &status);
    if (U_FAILURE(status) != 0)
      return Error{ErrorCode::bad_input, "text", std::string{"it cannot be normalised ("} + u_errorName(status) + ")",
                   "a shorter text"};
    out.append(bytes, 0, static_cast<std::size_t>(length));
    return {};
  }

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

  [[nodiscard]] Expected<std::string> apply(std::string text) const {
    for (const Step& step : steps_) {
      Expected<std::string> next = std::visit([&](const auto& kind) { return apply_step(kind, text); }, step);
      if (!next) return next;
      text = std::move(*next);
    }
    return text;
  }

 private:
  static Expected<std::string> apply_step(const NormalForm& form, const std::string& text) { return form.apply(text); }
  static Expected<std::string> apply_step(const PrependText& prepend, const std::string& text) {
    return text.empty() ? text : prepend.prefix + text;
  }
  static Expected<std::string> apply_step(const ReplaceText& replace, const std::string& text) {
    std::string out;
    std::size_t from = 0;
    const Status status = replace.pattern.each_match(text, [&](std::size_t begin, std::size_t end) {
      out.append(text, from, begin - from);
      out += replace.content;
      from = end;
    });
    if (!status) return status.error();
    return out.append(text, from);
  }

  std::vector<Step> steps_;
};

} // namespace sluice
