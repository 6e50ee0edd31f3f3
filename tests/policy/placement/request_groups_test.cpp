// SPDX-License-Identifier: Apache-2.0
// RequestGroups: groups are few, about equal, of neighbours in size and SLO, and lose no block.
#include "sluice/policy/placement/planning_instance.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("requests are divided into groups of like ones with about equal KV") {
  Random random(81);
  RequestGroups groups; // one for all rounds, as a policy keeps it
  int merged = 0, two_slos = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    std::vector<InstanceRequest> requests;
    std::vector<std::int64_t> blocks;
    for (std::int64_t i = between(random, 1, 40); i > 0; --i) {
      const Tokens tokens{between(random, 1, 2000)};
      const double slo = random.below(3) == 0 ? std::numeric_limits<double>::infinity() : 0.1;
      requests.push_back({LayerBlocks{0}, tokens, between(random, 0, 9), slo});
      blocks.push_back(tokens.count() / 16 + 1);
    }
    const std::vector<InstanceRequest> all = requests;
    const std::int64_t most = between(random, 1, 12);
    groups.form(requests, most, [&](std::size_t i) { return blocks[i]; });
    CHECK(static_cast<std::int64_t>(requests.size()) <= most);
    if (static_cast<std::int64_t>(all.size()) <= most) CHECK(requests.size() == all.size());
    REQUIRE(groups.largest().size() == requests.size());
    std::int64_t total = 0, largest = 0;
    for (const std::int64_t one : blocks) {
      total += one;
      largest = std::max(largest, one);
    }
    for (std::size_t g = 0; g < requests.size(); ++g) {
      std::int64_t sum = 0, deposit = 1 << 20;
      double slo = std::numeric_limits<double>::infinity();
      std::size_t members = 0;
      const InstanceRequest& biggest = all[groups.largest()[g]];
      CHECK(groups.of(groups.largest()[g]) == g);
      bool alike = true;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (groups.of(i) != g) continue;
        ++members;
        sum += blocks[i];
        deposit = std::min(deposit, all[i].deposit);
        slo = std::min(slo, all[i].slo_s);
        alike = alike && all[i].slo_s == biggest.slo_s;
      }
      CHECK(members > 0);
      CHECK(requests[g].blocks.count() == sum);
      CHECK(requests[g].tokens.count() == 0); // its blocks are constant
      CHECK(requests[g].deposit == deposit);
      CHECK(requests[g].slo_s == slo);
      for (std::size_t i = 0; i < all.size(); ++i)
        if (groups.of(i) == g && all[i].slo_s == biggest.slo_s) CHECK(all[i].tokens <= biggest.tokens);
      // A part's share, and half of the request at each of its ends.
      if (static_cast<std::int64_t>(all.size()) > most) CHECK(sum * most <= total + largest * most);
      merged += members > 1;
      two_slos += !alike;
    }
    // Groups follow one another by SLO and size.
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = 0; j < all.size(); ++j)
        if (groups.of(i) < groups.of(j)) {
          CHECK(all[i].slo_s <= all[j].slo_s);
          if (all[i].slo_s == all[j].slo_s) CHECK(all[i].tokens <= all[j].tokens);
        }
  }
  CHECK(merged > 1000);
  CHECK(two_slos > 100);
}
