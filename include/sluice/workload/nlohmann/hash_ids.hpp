// SPDX-License-Identifier: Apache-2.0
// read_hash_ids: reads the content of a prompt from a trace's hashes of its blocks.
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

/// The content that the numbers of `hash_ids` identify.
struct HashedPrompt {
  Tokens block{512};      ///< tokens per number; the last number may stand for fewer
  Tokens prompt{1};       ///< the prompt's tokens
  std::uint64_t salt = 0; ///< equal numbers with different salts identify different content, for example in different
                          ///< sessions
};

/// Reads the member `hash_ids` of a request into `content`, which is empty if there is no such member. If a prompt is
/// longer than its hashes, its end is unknown content. Error messages begin with `where`.
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
