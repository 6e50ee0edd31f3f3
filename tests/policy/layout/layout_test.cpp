// SPDX-License-Identifier: Apache-2.0
// Layout: the memory that a number of blocks takes in a number of layers.
#include "sluice/policy/layout/all_layers.hpp"
#include "sluice/policy/layout/layer_groups.hpp"
#include "sluice/policy/layout/per_layer.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace sluice;

namespace {

/// A minimal Layout.
struct Roomy {
  using role = roles::Layout;
  static constexpr bool layerwise = true;
  static constexpr LayerBlocks room(TokenBlocks blocks, int resident, int) {
    return LayerBlocks{2 * blocks.count() * resident};
  }
};
struct CountsTokenBlocks : Roomy {
  static constexpr TokenBlocks room(TokenBlocks blocks, int, int) { return blocks; }
};
struct SaysNotWhether : Roomy {
  struct layerwise {};
};

static_assert(Layout<Roomy> && Layout<PerLayer> && Layout<AllLayers> && Layout<LayerGroups<4>>);
static_assert(!Layout<CountsTokenBlocks> && !Layout<SaysNotWhether>);

} // namespace

TEST_CASE_TEMPLATE("memory grows with blocks and layers, suffices for its content, and is zero for nothing", L,
                   PerLayer, AllLayers, LayerGroups<1>, LayerGroups<2>, LayerGroups<4>, LayerGroups<8>, Roomy) {
  for (int layers : {1, 8, 32, 80})
    for (std::int64_t blocks = 0; blocks < 40; blocks += 3)
      for (int resident = 0; resident <= layers; ++resident) {
        const LayerBlocks room = L::room(TokenBlocks{blocks}, resident, layers);
        CHECK(room.count() >= blocks * resident);
        if (blocks == 0 || resident == 0) CHECK(room.count() == 0);
        CHECK(L::room(TokenBlocks{blocks + 1}, resident, layers) >= room);
        if (resident < layers) CHECK(L::room(TokenBlocks{blocks}, resident + 1, layers) >= room);
      }
}

TEST_CASE("PerLayer wastes nothing, groups waste less than one group per block, AllLayers stores all layers or none") {
  for (int layers : {8, 32})
    for (std::int64_t blocks = 1; blocks < 30; ++blocks)
      for (int resident = 0; resident <= layers; ++resident) {
        const std::int64_t held = blocks * resident;
        CHECK(PerLayer::room(TokenBlocks{blocks}, resident, layers).count() == held);
        CHECK(LayerGroups<1>::room(TokenBlocks{blocks}, resident, layers).count() == held);
        const std::int64_t grouped = LayerGroups<4>::room(TokenBlocks{blocks}, resident, layers).count();
        CHECK(grouped % (4 * blocks) == 0);
        CHECK(grouped - held < 4 * blocks);
        CHECK(AllLayers::room(TokenBlocks{blocks}, resident, layers).count() == (resident > 0 ? blocks * layers : 0));
      }
}
