// SPDX-License-Identifier: Apache-2.0
// PreemptWhereShort: the victim's KV is in the memory that is short.
#include "sluice/policy/relief/preempt_where_short.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace preempt_where_short_test {

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("the victim is the newest request in the memory that is short, in whatever order the claims are") {
  HandMade made; // 8 layers
  std::vector<Claim> claims;
  const auto decode = [&](bool on_host) {
    claims.push_back({made.decoding(Tokens{159}, Tokens{1}, Tokens{100}), Tokens{1}, Tokens{0}, true});
    claims.back().on_host = on_host;
  };
  for (const bool on_host : {false, true, false, true, false}) decode(on_host); // each needs 10 blocks of 8 layers
  const PreemptWhereShort relief;
  PreemptWhereShort::State state;
  for (int turn = 0; turn < 5; ++turn) {
    const auto victim = [&] { return index(claims[relief.choose(made.view(), state, claims)].slot); };
    made.ledger = Ledger{LayerBlocks{3 * 80 - 1}, LayerBlocks{1000}};
    CHECK(victim() == 4); // on the device
    made.ledger = Ledger{LayerBlocks{3 * 80}, LayerBlocks{159}};
    CHECK(victim() == 3); // on the host
    claims.insert(claims.begin(), claims.back());
    claims.pop_back();
  }
  const std::vector<Claim> one{claims.front()};
  CHECK(relief.choose(made.view(), state, one) == 0);
}

} // namespace preempt_where_short_test
