// SPDX-License-Identifier: Apache-2.0
// read_hash_ids: the content of a prompt from a trace's hashes of its blocks.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/workload/content.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// What the numbers of `hash_ids` name.
struct HashedPrompt {
  Tokens block{512};      ///< tokens per number; the last one may name fewer
  Tokens prompt{1};       ///< the prompt's tokens
  std::uint64_t salt = 0; ///< numbers with different salts name different content, as of different sessions
};

/// Reads the member `hash_ids` of a request into `content`, which is empty if there is no such member. A prompt that is
/// longer than its hashes ends in unknown content. Errors begin with `where`.
inline Status read_hash_ids(const nlohmann::json& object, HashedPrompt of, const std::string& where,
                            std::vector<ContentPiece>& content) {
  content.clear();
  const auto member = object.find("hash_ids");
  if (member == object.end() || member->is_null()) return {};
  const std::int64_t started = (of.prompt.count() + of.block.count() - 1) / of.block.count();
  const std::string expected = "at most one whole number per " + std::to_string(of.block.count()) + " prompt tokens";
  if (!member->is_array()) return Error{ErrorCode::bad_input, where, "hash_ids is no list", expected};
  if (static_cast<std::int64_t>(member->size()) > started)
    return Error{ErrorCode::bad_input, where,
                 "hash_ids has " + std::to_string(member->size()) + " numbers for " +
                     std::to_string(of.prompt.count()) + " prompt tokens",
                 expected};
  Tokens left = of.prompt;
  for (const nlohmann::json& number : *member) {
    if (!number.is_number_unsigned())
      return Error{ErrorCode::bad_input, where, "hash_ids holds something else than whole numbers from 0", expected};
    const Tokens tokens = std::min(left, of.block);
    const auto id = number.get<std::uint64_t>();
    content.push_back({of.salt == 0 ? id : static_cast<std::uint64_t>(next_key(BlockKey{of.salt}, id)), tokens});
    left -= tokens;
  }
  return {};
}

} // namespace sluice
