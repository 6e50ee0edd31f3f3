// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/tokenizer/byte_pair_model.hpp"

#include "model/tokenizer/random_text.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

using Rules = std::map<std::pair<std::int32_t, std::int32_t>, Merge>;

/// The definition: look at all pairs, merge the leftmost of the lowest rank, repeat.
std::vector<std::int32_t> joined_naively(std::vector<std::int32_t> tokens, const Rules& rules) {
  for (;;) {
    std::optional<std::pair<Merge, std::size_t>> best;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = rules.find({tokens[i], tokens[i + 1]});
      if (found != rules.end() && (!best || found->second.rank < best->first.rank)) best = {found->second, i};
    }
    if (!best) return tokens;
    tokens[best->second] = best->first.result;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best->second) + 1);
  }
}

} // namespace

TEST_CASE("merging through a queue equals looking at every pair each time") {
  Random random(4);
  BytePairMerges::Workspace workspace;
  std::size_t shortened = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const auto alphabet = static_cast<std::int32_t>(1 + sluice_test::below(random, 6));
    Rules rules;
    BytePairMerges merges;
    // Results that are tokens of other merges, and unordered ranks: worse than any trained vocabulary.
    const auto count = static_cast<std::int32_t>(sluice_test::below(random, 24));
    const auto pick = [&](std::int32_t most) {
      return static_cast<std::int32_t>(sluice_test::below(random, static_cast<std::size_t>(most)));
    };
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t left = pick(alphabet + i), right = pick(alphabet + i);
      if (rules.count({left, right}) > 0) continue;
      const Merge merge{(i * 17) % 29, alphabet + pick(count)};
      rules[{left, right}] = merge;
      merges.add(left, right, merge);
    }
    CHECK(merges.count() == rules.size());
    std::vector<std::int32_t> tokens(sluice_test::below(random, 60));
    for (std::int32_t& token : tokens) token = pick(alphabet);
    const std::vector<std::int32_t> expected = joined_naively(tokens, rules);
    shortened += tokens.size() - expected.size();
    std::vector<std::int32_t> with_others{7, 7};
    with_others.insert(with_others.end(), tokens.begin(), tokens.end());
    merges.join(with_others, 2, workspace);
    REQUIRE(std::vector<std::int32_t>(with_others.begin() + 2, with_others.end()) == expected);
    CHECK((with_others[0] == 7 && with_others[1] == 7)); // earlier tokens stay
  }
  CHECK(shortened > 2000);
}

TEST_CASE("a table of merges finds the pairs added, with their last values, and nothing else") {
  Random random(5);
  Rules rules;
  BytePairMerges merges(10); // grows
  for (std::int32_t i = 0; i < 3000; ++i) {
    const auto left = static_cast<std::int32_t>(random() % 64), right = static_cast<std::int32_t>(random() % 128000);
    rules[{left, right}] = {i, i + 1};
    merges.add(left, right, {i, i + 1});
  }
  CHECK(merges.count() == rules.size());
  for (const auto& [pair, merge] : rules) CHECK(merges.find(pair.first, pair.second) == merge);
  for (int i = 0; i < 3000; ++i) {
    const auto left = static_cast<std::int32_t>(random() % 64), right = static_cast<std::int32_t>(random() % 128000);
    CHECK(merges.find(left, right).has_value() == (rules.count({left, right}) > 0));
  }
}
