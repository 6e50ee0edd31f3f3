// SPDX-License-Identifier: Apache-2.0
// Vocabulary: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/tokenizer/vocabulary.hpp"

namespace sluice {

SLUICE_MODEL_INLINE Status Vocabulary::add(std::int64_t id, std::string_view name, std::string_view text,
                                           bool special) {
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

SLUICE_MODEL_INLINE Status Vocabulary::change(std::int32_t id, std::string_view text, bool special) {
  SLUICE_ASSERT(has(id), "a token");
  return put(static_cast<std::size_t>(id), text, special);
}

SLUICE_MODEL_INLINE std::optional<std::int32_t> Vocabulary::id_of(std::string_view name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

SLUICE_MODEL_INLINE bool Vocabulary::has(std::int32_t id) const {
  return id >= 0 && id < size() && tokens_[static_cast<std::size_t>(id)].there;
}

SLUICE_MODEL_INLINE std::string_view Vocabulary::text_of(std::int32_t id) const {
  if (!has(id)) return {};
  const Token& token = tokens_[static_cast<std::size_t>(id)];
  return std::string_view(texts_).substr(token.begin, token.bytes);
}

SLUICE_MODEL_INLINE bool Vocabulary::is_special(std::int32_t id) const {
  return has(id) && tokens_[static_cast<std::size_t>(id)].special;
}

SLUICE_MODEL_INLINE Status Vocabulary::put(std::size_t at, std::string_view text, bool special) {
  constexpr std::size_t most = std::size_t{1} << 31;
  if (texts_.size() + text.size() > most)
    return Error{ErrorCode::bad_input, {}, "the tokens have over 2 GiB of text", "a vocabulary of a model"};
  tokens_[at] = {static_cast<std::uint32_t>(texts_.size()), static_cast<std::uint32_t>(text.size()), true, special};
  texts_.append(text);
  return {};
}

} // namespace sluice
