// SPDX-License-Identifier: Apache-2.0
// Normalizer: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/icu/normalizer.hpp"

#include <unicode/unorm2.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

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

SLUICE_MODEL_INLINE bool NormalForm::knows(std::string_view name) {
  return name == "NFC" || name == "NFD" || name == "NFKC" || name == "NFKD";
}

SLUICE_MODEL_INLINE Expected<NormalForm> NormalForm::named(std::string_view name) {
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

SLUICE_MODEL_INLINE Expected<std::string> NormalForm::apply(std::string_view text) const {
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

SLUICE_MODEL_INLINE Status NormalForm::append(std::string_view whole, std::string& out) const {
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

SLUICE_MODEL_INLINE Expected<std::string> Normalizer::apply(std::string text) const {
  for (const Step& step : steps_) {
    Expected<std::string> next = std::visit([&](const auto& kind) { return apply_step(kind, text); }, step);
    if (!next) return next;
    text = std::move(*next);
  }
  return text;
}

SLUICE_MODEL_INLINE Expected<std::string> Normalizer::apply_step(const PrependText& prepend, const std::string& text) {
  return text.empty() ? text : prepend.prefix + text;
}

SLUICE_MODEL_INLINE Expected<std::string> Normalizer::apply_step(const ReplaceText& replace, const std::string& text) {
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

} // namespace sluice
