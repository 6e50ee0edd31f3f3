// SPDX-License-Identifier: Apache-2.0
// HybridCache: which requests have hidden states, and the room that these and the rebuilt layer take.
#include "sluice/policy/placement/hybrid_cache.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cstddef>
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

  // Its K and V need 2 layer blocks beside them, of the last layer's hidden states.
  claims[0].as_states = false;
  CHECK(solve(32 + 32 + 2).joined == 0);
  CHECK(plan.requests[0].holding == Holding{});
  CHECK(plan.in_flight == LayerBlocks{2});
  CHECK(solve(32 + 32 + 1).joined == 0);
  CHECK(plan.requests[0].holding == HybridCache::states(8));
  CHECK(solve(16 + 32 + 4).feasible); // not enough for K and V of both
  CHECK(plan.requests[0].holding == HybridCache::states(8));
}

TEST_CASE("where memory holds K and V of only some requests that may change, the first ones change") {
  using namespace hybrid_plan;
  HandMade made;
  made.geometry.layer_hidden_bytes = Bytes{2048};
  std::vector<Claim> claims;
  for (int i = 0; i < 4; ++i) {
    const Slot slot = made.decoding(Tokens{60}, Tokens{4}, Tokens{100});
    made.rows[index(slot)].holding = HybridCache::states(8);
    claims.push_back({slot, Tokens{1}, Tokens{0}, true});
  }
  claims[1].as_states = true; // it keeps them
  const PlainCost cost;
  const HybridCache policy;
  HybridCache::State<DeadlinePool> state;
  Plan plan;
  const View view = made.view();
  // As hidden states each takes 16 + 4, and as K and V 32 + 2.
  for (std::int64_t changed = 0; changed <= 3; ++changed) {
    CAPTURE(changed);
    for (const std::int64_t more : {0, 13}) {
      if (changed == 3 && more > 0) continue;
      const LayerBlocks device{4 * 20 + 14 * changed + more};
      CHECK(policy.solve(Task{view, claims, 4, device, LayerBlocks{0}, cost, {}}, state, plan).feasible);
      std::int64_t has_kv = 0;
      for (const std::size_t i : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
        CHECK((plan.requests[i].holding == Holding{}) == (has_kv < changed));
        ++has_kv;
      }
      CHECK(plan.requests[1].holding == HybridCache::states(8));
    }
  }
}
