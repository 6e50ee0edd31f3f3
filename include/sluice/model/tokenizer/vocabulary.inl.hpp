// SPDX-License-Identifier: Apache-2.0
// Vocabulary: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/text.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/vocabulary.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

SLUICE_INLINE Status Vocabulary::add(std::int64_t id, std::string_view name, std::string_view text, bool special) {
  if (id < 0 || id >= most_tokens) {
    return Error{ErrorCode::bad_input,
                 {},
                 "token '" + excerpt(name) + "' has the number " + std::to_string(id),
                 "a number from 0 to " + std::to_string(most_tokens - 1)};
  }
  const auto at = static_cast<std::size_t>(id);
  if (at < tokens_.size() && tokens_[at].there) {
    return Error{ErrorCode::bad_input,
                 {},
                 "token '" + excerpt(name) + "' has the number " + std::to_string(id) + ", as another has",
                 "each number once"};
  }
  if (!ids_.emplace(name, static_cast<std::int32_t>(id)).second)
    return Error{ErrorCode::bad_input, {}, "token '" + excerpt(name) + "' is there twice", "each name once"};
  if (at >= tokens_.size()) tokens_.resize(at + 1);
  ++count_;
  return put(at, text, special);
}

SLUICE_INLINE Status Vocabulary::change(std::int32_t id, std::string_view text, bool special) {
  SLUICE_ASSERT(has(id), "a token");
  return put(static_cast<std::size_t>(id), text, special);
}

SLUICE_INLINE std::optional<std::int32_t> Vocabulary::id_of(std::string_view name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

SLUICE_INLINE bool Vocabulary::has(std::int32_t id) const {
  return id >= 0 && id < size() && tokens_[static_cast<std::size_t>(id)].there;
}

SLUICE_INLINE std::string_view Vocabulary::text_of(std::int32_t id) const {
  if (!has(id)) return {};
  const Token& token = tokens_[static_cast<std::size_t>(id)];
  return std::string_view(texts_).substr(token.begin, token.bytes);
}

SLUICE_INLINE bool Vocabulary::is_special(std::int32_t id) const {
  return has(id) && tokens_[static_cast<std::size_t>(id)].special;
}

SLUICE_INLINE Status Vocabulary::put(std::size_t at, std::string_view text, bool special) {
  constexpr std::size_t most = std::size_t{1} << 31;
  if (texts_.size() + text.size() > most)
    return Error{ErrorCode::bad_input, {}, "the tokens have over 2 GiB of text", "a vocabulary of a model"};
  tokens_[at] = {static_cast<std::uint32_t>(texts_.size()), static_cast<std::uint32_t>(text.size()), true, special};
  texts_.append(text);
  return {};
}

SLUICE_INLINE void AddedTokens::add(AddedToken token) {
  SLUICE_ASSERT(!token.spelling.empty(), "an added token that is spelled");
  std::vector<AddedToken>& same = by_first_[static_cast<unsigned char>(token.spelling.front())];
  const auto longer = [&](const AddedToken& other) { return other.spelling.size() >= token.spelling.size(); };
  same.insert(std::find_if_not(same.begin(), same.end(), longer), std::move(token));
  ++count_;
}

SLUICE_INLINE std::vector<TextPart> AddedTokens::split(std::string_view text) const {
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

SLUICE_INLINE const AddedToken* AddedTokens::find(std::string_view text) const {
  for (const AddedToken& token : by_first_[static_cast<unsigned char>(text.front())])
    if (text.substr(0, token.spelling.size()) == token.spelling) return &token;
  return nullptr;
}

SLUICE_INLINE std::size_t AddedTokens::end_of_spaces(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Utf8Step step = next_utf8(text.substr(at));
    if (step.kind != Utf8Kind::whole || !is_white_space(step.code)) break;
    at += static_cast<std::size_t>(step.bytes);
  }
  return at;
}

SLUICE_INLINE std::size_t AddedTokens::begin_of_spaces(std::string_view text, std::size_t least, std::size_t end) {
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
