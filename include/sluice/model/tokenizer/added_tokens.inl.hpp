// SPDX-License-Identifier: Apache-2.0
// AddedTokens: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/added_tokens.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

SLUICE_MODEL_INLINE void AddedTokens::add(AddedToken token) {
  SLUICE_ASSERT(!token.spelling.empty(), "an added token that is spelled");
  std::vector<AddedToken>& same = by_first_[static_cast<unsigned char>(token.spelling.front())];
  const auto longer = [&](const AddedToken& other) { return other.spelling.size() >= token.spelling.size(); };
  same.insert(std::find_if_not(same.begin(), same.end(), longer), std::move(token));
  ++count_;
}

SLUICE_MODEL_INLINE std::vector<TextPart> AddedTokens::split(std::string_view text) const {
  std::vector<TextPart> parts;
  std::size_t begin = 0; // of the text that is in no part yet
  for (std::size_t at = 0; count_ > 0 && at < text.size();) {
    const AddedToken* found = find(text.substr(at));
    if (found == nullptr) {
      ++at;
      continue;
    }
    const std::size_t end = at + found->spelling.size();
    const std::size_t from = found->takes_spaces_before ? begin_of_spaces(text, begin, at) : at;
    const std::size_t to = found->takes_spaces_after ? end_of_spaces(text, end) : end;
    if (begin < from) parts.push_back({std::nullopt, begin, from});
    parts.push_back({found->id, from, to});
    begin = at = to;
  }
  if (begin < text.size()) parts.push_back({std::nullopt, begin, text.size()});
  return parts;
}

SLUICE_MODEL_INLINE const AddedToken* AddedTokens::find(std::string_view text) const {
  for (const AddedToken& token : by_first_[static_cast<unsigned char>(text.front())])
    if (text.substr(0, token.spelling.size()) == token.spelling) return &token;
  return nullptr;
}

SLUICE_MODEL_INLINE std::size_t AddedTokens::end_of_spaces(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Utf8Step step = next_utf8(text.substr(at));
    if (step.kind != Utf8Kind::whole || !is_white_space(step.code)) break;
    at += static_cast<std::size_t>(step.bytes);
  }
  return at;
}

SLUICE_MODEL_INLINE std::size_t AddedTokens::begin_of_spaces(std::string_view text, std::size_t least,
                                                             std::size_t end) {
  for (;;) {
    std::size_t before = end;
    for (std::size_t bytes = 1; bytes <= 3 && least + bytes <= end; ++bytes) {
      const Utf8Step step = next_utf8(text.substr(end - bytes, bytes));
      if (step.kind == Utf8Kind::whole && static_cast<std::size_t>(step.bytes) == bytes && is_white_space(step.code))
        before = end - bytes;
    }
    if (before == end) return end;
    end = before;
  }
}

} // namespace sluice
