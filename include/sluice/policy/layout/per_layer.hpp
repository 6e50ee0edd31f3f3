// SPDX-License-Identifier: Apache-2.0
// PerLayer: a unit of KV memory is one block of one layer (the default).
#pragma once

#include "sluice/policy/layout/layout.hpp"

namespace sluice {

/// One block of one layer: any set of layers can be resident, and only the last block of a layer is partly empty.
struct PerLayer {
  using role = roles::Layout;
  static constexpr bool layerwise = true;

  static constexpr LayerBlocks room(TokenBlocks blocks, int resident, int /*layers*/) {
    return LayerBlocks{blocks.count() * resident};
  }
};

template <>
struct Default<roles::Layout> {
  using type = PerLayer;
};

} // namespace sluice
