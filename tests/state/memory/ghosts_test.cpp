// SPDX-License-Identifier: Apache-2.0
// Ghosts against two lists.
#include "sluice/core/random.hpp"
#include "sluice/state/memory/eviction.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>

using namespace sluice;

TEST_CASE("ghosts are two lists of keys, whatever leaves out of turn") {
  std::int64_t dropped = 0, removed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const std::size_t most = random.below(40);
    Ghosts ghosts(most);
    std::array<std::list<BlockKey>, 2> lists;
    const auto has = [&](std::uint32_t list, BlockKey key) {
      return std::find(lists[list].begin(), lists[list].end(), key) != lists[list].end();
    };
    for (int step = 0; step < 600; ++step) {
      const BlockKey key = next_key(BlockKey{}, random.below(3 * most + 2));
      const std::uint32_t list = has(0, key) ? 0 : has(1, key) ? 1 : Ghosts::none;
      CHECK(ghosts.list_of(key) == list);
      if (list != Ghosts::none && random.below(2) == 0) {
        ghosts.remove(key);
        lists[list].remove(key);
        ++removed;
      } else if (list == Ghosts::none) {
        ghosts.remove(key); // does nothing
        const auto into = static_cast<std::uint32_t>(random.below(2));
        ghosts.add(into, key);
        lists[into].push_back(key);
        if (lists[into].size() > most) {
          ghosts.drop_oldest(into);
          lists[into].pop_front();
          ++dropped;
        }
      }
      for (const std::uint32_t of : {0u, 1u}) CHECK(ghosts.count(of) == lists[of].size());
    }
    for (const std::uint32_t of : {0u, 1u})
      for (const BlockKey key : lists[of]) CHECK(ghosts.list_of(key) == of);
  }
  CHECK(dropped > 2000);
  CHECK(removed > 2000);
}
