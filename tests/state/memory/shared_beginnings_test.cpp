// SPDX-License-Identifier: Apache-2.0
// SharedBeginning: rows of random prompts against all pairs, and their keys against keys of the text.
#include "sluice/core/random.hpp"
#include "sluice/state/memory/shared_beginnings.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace sluice;

namespace {

using Prompts = std::vector<std::vector<std::uint64_t>>;

/// Prompts that branch off each other at any token, repeat each other, or are each other's prefixes.
Prompts random_prompts(Random& random) {
  Prompts prompts(1 + random.below(40));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (i > 0 && random.below(3) > 0) {
      prompts[i] = prompts[random.below(i)];
      prompts[i].resize(random.below(prompts[i].size() + 1));
    }
    for (std::uint64_t more = random.below(50); more > 0; --more) prompts[i].push_back(random.below(2));
  }
  return prompts;
}

std::int64_t common(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return static_cast<std::int64_t>(n);
}

} // namespace

TEST_CASE("a row names the earlier prompt with the longest common prefix") {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    const Prompts prompts = random_prompts(random);
    const Tokens least{static_cast<std::int64_t>(random.below(20))};
    const std::vector<SharedBeginning> rows = find_shared_beginnings(prompts, least);
    auto row = rows.begin();
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      std::int64_t most = 0;
      for (std::size_t j = 0; j < i; ++j) most = std::max(most, common(prompts[i], prompts[j]));
      if (most == 0 || most < least.count()) continue;
      REQUIRE(row != rows.end());
      REQUIRE(row->prompt == i);
      REQUIRE(row->earlier < i);
      REQUIRE(row->tokens == most);
      REQUIRE(common(prompts[i], prompts[row->earlier]) == most);
      ++row;
    }
    REQUIRE(row == rows.end());
  }
}

TEST_CASE("the rows' keys are equal exactly where the text's keys are") {
  Random random(8);
  for (int round = 0; round < 300; ++round) {
    const Prompts prompts = random_prompts(random);
    const Tokens block{static_cast<std::int64_t>(1 + random.below(8))};
    const auto per_block = static_cast<std::size_t>(block.count());
    std::vector<Tokens> lengths;
    std::vector<std::vector<BlockKey>> of_text;
    for (const auto& prompt : prompts) {
      lengths.emplace_back(static_cast<std::int64_t>(prompt.size()));
      std::vector<BlockKey>& keys = of_text.emplace_back();
      BlockKey key{};
      for (std::size_t i = 0; i < prompt.size() / per_block * per_block; ++i) {
        key = next_key(key, prompt[i]);
        if ((i + 1) % per_block == 0) keys.push_back(key);
      }
    }
    // Rows shorter than a block have no effect.
    const auto of_rows = keys_of_shared_beginnings(find_shared_beginnings(prompts, block), lengths, block);
    REQUIRE(of_rows.size() == prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      REQUIRE(of_rows[i].size() == of_text[i].size());
      for (std::size_t j = 0; j < i; ++j) {
        for (std::size_t b = 0; b < std::min(of_text[i].size(), of_text[j].size()); ++b) {
          REQUIRE((of_rows[i][b] == of_rows[j][b]) == (of_text[i][b] == of_text[j][b]));
        }
      }
    }
  }
}
