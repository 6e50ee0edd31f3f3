// SPDX-License-Identifier: Apache-2.0
// Block keys: equal exactly if all tokens up to the block's end are.
#include "sluice/core/random.hpp"
#include "sluice/workload/content.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// A token by what identifies it: the piece and its offset there.
using Token = std::pair<std::uint64_t, std::int64_t>;

std::vector<Token> tokens_of(const std::vector<ContentPiece>& pieces) {
  std::vector<Token> tokens;
  for (const ContentPiece& piece : pieces)
    for (std::int64_t at = 0; at < piece.tokens.count(); ++at) tokens.emplace_back(piece.id, at);
  return tokens;
}
std::vector<BlockKey> keys_of(const std::vector<ContentPiece>& pieces, std::int64_t block) {
  std::vector<BlockKey> keys;
  block_keys(pieces, Tokens{block}, keys);
  return keys;
}

} // namespace

TEST_CASE("two keys are equal exactly if all tokens up to the block's end are, for any block size") {
  Random random(1);
  std::int64_t equal = 0, different = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<std::vector<ContentPiece>> contents(4);
    const std::uint64_t ids = 1 + random.below(3);
    for (auto& pieces : contents) {
      // Contents often begin alike: few ids, few lengths, and a common beginning.
      if (random.below(2) == 0) pieces = contents.front();
      if (!pieces.empty() && random.below(2) == 0) pieces.back().tokens = Tokens{random.below(40)};
      for (std::uint64_t more = random.below(5); more > 0; --more)
        pieces.push_back({random.below(ids), Tokens{1 + random.below(2) * 15 + random.below(3)}});
    }
    const auto block = static_cast<std::int64_t>(1 + random.below(20));
    for (const auto& a : contents)
      for (const auto& b : contents) {
        const std::vector<Token> of_a = tokens_of(a), of_b = tokens_of(b);
        const std::vector<BlockKey> keys_a = keys_of(a, block), keys_b = keys_of(b, block);
        CHECK(keys_a.size() == of_a.size() / static_cast<std::size_t>(block));
        for (std::size_t i = 0; i < std::min(keys_a.size(), keys_b.size()); ++i) {
          const auto end = static_cast<std::ptrdiff_t>((i + 1) * static_cast<std::size_t>(block));
          const bool same = std::equal(of_a.begin(), of_a.begin() + end, of_b.begin());
          CHECK((keys_a[i] == keys_b[i]) == same);
          (same ? equal : different) += 1;
        }
      }
  }
  CHECK(equal > 1000);
  CHECK(different > 1000);
}
