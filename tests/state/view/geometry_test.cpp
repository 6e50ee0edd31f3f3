// SPDX-License-Identifier: Apache-2.0
#include "sluice/state/view/view.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cstdint>

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("the room of several requests, by their blocks in all, is never less than the sum of their rooms") {
  Random random{3};
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    Geometry geometry{.layers = 6, .layer_block_bytes = Bytes{16}};
    KvLayers layers;
    KvGroups kv;
    for (int layer = 0; layer < geometry.layers; ++layer) {
      KvRule rule{.entry = 1};
      if (layer > 0 && random.below(2) == 0)
        rule = {.kind = KvKind::sliding, .entry = 1, .window = static_cast<std::int32_t>(between(random, 1, 200))};
      REQUIRE(kv.add(layer, rule));
    }
    if (random.below(2) == 0) {
      layers.blocks = KvBlocks{kv, Tokens{16}};
      geometry.groups = &layers;
    }
    const std::int64_t requests = between(random, 1, 9);
    std::int64_t blocks = 0, room = 0;
    for (std::int64_t i = 0; i < requests; ++i) {
      const TokenBlocks one{between(random, 1, 30)};
      blocks += one.count();
      room += geometry.kv_of(one).count();
    }
    CHECK(geometry.kv_of_all(static_cast<double>(blocks), static_cast<std::size_t>(requests)) >=
          static_cast<double>(room));
  }
}
