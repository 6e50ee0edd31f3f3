// SPDX-License-Identifier: Apache-2.0
// Normalizer: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/icu/normalizer.hpp"

#include <unicode/unorm2.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice {

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
