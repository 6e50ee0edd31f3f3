// SPDX-License-Identifier: Apache-2.0
// ContentPiece: identifies the tokens of a request; the keys of its blocks follow from it.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Identifies the content of a block: its tokens and all tokens before them. Equal keys mean equal KV.
enum class BlockKey : std::uint64_t {};

/// Returns the key of the block with content `content` after the block `before` (0 for the first): splitmix64's
/// finaliser applied to both. Content that no other request shares, such as an unknown token, is identified by request
/// and position.
constexpr BlockKey next_key(BlockKey before, std::uint64_t content) {
  std::uint64_t z = static_cast<std::uint64_t>(before) * 0x9e3779b97f4a7c15u + content + 0x632be59bd9b4e019u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return BlockKey{z ^ (z >> 31)};
}

/// `tokens` consecutive tokens of a request's context (its prompt, then its answer). Two pieces with the same `id` have
/// the same tokens, up to the shorter one's length.
///
/// One type for all sources: a trace's hash of 512 tokens is a piece of 512 tokens, a token id is a piece of one token,
/// and a generated session is one long piece that grows with every turn.
struct ContentPiece {
  std::uint64_t id = 0;
  Tokens tokens{0};

  friend constexpr bool operator==(const ContentPiece&, const ContentPiece&) = default;
};

/// Writes the keys of the full blocks of a context with these pieces. Two keys are equal exactly if the pieces up to
/// the block's end show that all tokens are equal (except for collisions of 64-bit hashes). Takes O(blocks + pieces).
///
/// A block inside a piece is identified by the piece and the block's offset in it, so blocks may be smaller than a
/// trace's pieces. Requests that differ somewhere in a piece of a hash share no block of that piece, since the trace
/// does not show where they begin to differ.
inline void block_keys(std::span<const ContentPiece> pieces, Tokens block_tokens, std::vector<BlockKey>& keys) {
  SLUICE_ASSERT(block_tokens.count() > 0, "a block of some tokens");
  keys.clear();
  Tokens tokens{0};
  for (const ContentPiece& piece : pieces) tokens += piece.tokens;
  keys.reserve(static_cast<std::size_t>(tokens / block_tokens));
  BlockKey key{};
  std::uint64_t content = 0;     // content of the current block
  Tokens missing = block_tokens; // tokens until the current block is full
  for (const ContentPiece& piece : pieces) {
    for (Tokens at{0}; at < piece.tokens;) {
      // Hashes the part that begins here and its position in the block: two blocks with the same parts may divide them
      // differently.
      const BlockKey piece_here = next_key(BlockKey{piece.id}, static_cast<std::uint64_t>(at.count()));
      const auto word = static_cast<std::uint64_t>(next_key(piece_here, static_cast<std::uint64_t>(missing.count())));
      content = missing == block_tokens ? word : static_cast<std::uint64_t>(next_key(BlockKey{content}, word));
      const Tokens part = std::min(missing, piece.tokens - at);
      at += part;
      missing -= part;
      if (missing.count() > 0) continue;
      key = next_key(key, content);
      keys.push_back(key);
      missing = block_tokens;
    }
  }
}

// KeyedRequest: a request with the keys of its blocks.

/// A request as an engine receives it. The keys identify the full blocks of its prompt and, as far as they are known,
/// of its answer.
struct KeyedRequest {
  RequestSpec spec;
  std::vector<BlockKey> keys;
};

} // namespace sluice
