// SPDX-License-Identifier: Apache-2.0
// belady_hits against the best of all possible evictions, on small random trees.
#include "sluice/core/random.hpp"
#include "sluice/state/memory/belady.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

using namespace sluice;

namespace {

using Held = std::set<BlockKey>;

/// The most hits of `requests` from number `at` on with these blocks held: tries every set of whole prefixes that the
/// request before may have left.
class Exhaustive {
 public:
  Exhaustive(std::vector<PrefixUse> requests, std::size_t capacity)
      : requests_(std::move(requests)), capacity_(capacity) {
    for (const PrefixUse& use : requests_)
      for (std::size_t i = 1; i < use.keys.size(); ++i) before_[use.keys[i]] = use.keys[i - 1];
  }
  std::int64_t most() { return most(0, {}); }

 private:
  std::int64_t most(std::size_t at, const Held& held) {
    if (at == requests_.size()) return 0;
    const auto known = best_.find({at, held});
    if (known != best_.end()) return known->second;
    const auto& [keys, looked_up] = requests_[at];
    std::int64_t hits = 0;
    while (hits < static_cast<std::int64_t>(looked_up) && held.count(keys[static_cast<std::size_t>(hits)]) > 0) ++hits;
    Held all = held;
    all.insert(keys.begin(), keys.end());
    const std::vector<BlockKey> choice(all.begin(), all.end());
    std::int64_t later = 0;
    for (std::uint32_t subset = 0; subset < (1u << choice.size()); ++subset) {
      Held kept;
      for (std::size_t i = 0; i < choice.size(); ++i)
        if ((subset >> i & 1u) != 0) kept.insert(choice[i]);
      if (kept.size() > capacity_) continue;
      if (std::any_of(kept.begin(), kept.end(), [&](BlockKey key) {
            const auto before = before_.find(key);
            return before != before_.end() && kept.count(before->second) == 0;
          }))
        continue;
      later = std::max(later, most(at + 1, kept));
    }
    best_[{at, held}] = hits + later;
    return hits + later;
  }

  std::vector<PrefixUse> requests_;
  std::size_t capacity_;
  std::map<BlockKey, BlockKey> before_;
  std::map<std::pair<std::size_t, Held>, std::int64_t> best_;
};

} // namespace

TEST_CASE("no choice of evictions finds more blocks than Belady's rule on the leaves") {
  std::int64_t hits = 0, below_all = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    const auto capacity = static_cast<std::size_t>(1 + random.below(4));
    std::vector<std::vector<BlockKey>> requests(6);
    for (auto& keys : requests) {
      BlockKey key{};
      for (std::uint64_t i = 1 + random.below(3); i > 0; --i) keys.push_back(key = next_key(key, random.below(2)));
    }
    std::vector<PrefixUse> uses;
    for (const auto& keys : requests) uses.push_back({keys, keys.size() - random.below(2)});
    const std::int64_t found = belady_hits(uses, TokenBlocks{static_cast<std::int64_t>(capacity)});
    CHECK(found == Exhaustive(uses, capacity).most());
    hits += found;
    below_all += found < belady_hits(uses, TokenBlocks{100}) ? 1 : 0;
  }
  CHECK(hits > 300);
  CHECK(below_all > 30);
}

TEST_CASE("a block whose next use does not look it up makes room for one that is looked up") {
  const BlockKey a = next_key(BlockKey{}, 1), b = next_key(BlockKey{}, 2);
  const std::vector<BlockKey> of_a{a}, of_b{b};
  // The second request for `a` computes its block again: only `b` can be found.
  const std::vector<PrefixUse> uses{{of_a, 1}, {of_b, 1}, {of_a, 0}, {of_b, 1}};
  CHECK(belady_hits(uses, TokenBlocks{1}) == 1);
}
