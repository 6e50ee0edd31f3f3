// SPDX-License-Identifier: Apache-2.0
// HybridCache: which requests have hidden states, and the room that these and the rebuilt layer take.
#include "sluice/policy/placement/hybrid_cache.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace hybrid_plan {
namespace {

using Task = PlacementTask<PlainCost, DeadlinePool, PerLayer>;

} // namespace
} // namespace hybrid_plan

TEST_CASE("hidden states are for requests that start with them, and K and V may follow them where they fit") {
  using namespace hybrid_plan;
  HandMade made;
  made.geometry.layer_hidden_bytes = Bytes{2048};
  const Slot has = made.decoding(Tokens{60}, Tokens{4}, Tokens{100});
  made.rows[index(has)].holding = HybridCache::states(8);
  const Slot kv = made.decoding(Tokens{60}, Tokens{4}, Tokens{100});
  const Slot starts = made.add(Tokens{64}, Tokens{100}, Tokens{0}, Tokens{0}, Phase::waiting);
  const PlainCost cost;
  const HybridCache policy;
  HybridCache::State<DeadlinePool> state;
  Plan plan;
  std::vector<Claim> claims{{has, Tokens{1}, Tokens{0}, true}, {kv, Tokens{1}, Tokens{0}, true}, {starts, Tokens{64}}};
  for (Claim& claim : claims) claim.as_states = true;
  const View view = made.view();
  const auto solve = [&](std::int64_t device) {
    return policy.solve(Task{view, claims, 2, LayerBlocks{device}, LayerBlocks{0}, cost, {}}, state, plan);
  };
  // 4 blocks each: 16 layer blocks of states, 32 of K and V, and 4 for each request that is rebuilt.
  CHECK(solve(16 + 32 + 16 + 8).joined == 1);
  REQUIRE(plan.requests.size() == 3);
  CHECK(plan.requests[0].holding == HybridCache::states(8));
  CHECK(plan.requests[1].holding == Holding{}); // its states were not kept
  CHECK(plan.requests[2].holding == HybridCache::states(8));
  CHECK(plan.in_flight == LayerBlocks{8});
  const Verdict less = solve(16 + 32 + 16 + 7);
  CHECK(less.feasible);
  CHECK(less.joined == 0);
  CHECK_FALSE(solve(16 + 32 + 3).feasible);

  claims[0].as_states = false;
  CHECK(solve(32 + 32).joined == 0);
  CHECK(plan.requests[0].holding == Holding{});
  CHECK(plan.in_flight == LayerBlocks{0});
  CHECK(solve(16 + 32 + 4).feasible); // not enough for K and V of both
  CHECK(plan.requests[0].holding == HybridCache::states(8));
}
