// SPDX-License-Identifier: Apache-2.0
// LayerGroups<F>: a unit of KV memory spans F layers (eLLM, section 5: F = 4).
#pragma once

#include "sluice/layout/layout.hpp"

namespace sluice {

/// Units of `F` layers by a block of tokens. A set of layers whose size is not a multiple of `F` leaves part of its
/// last unit empty: the fragmentation that eLLM accepts for a shorter map (its Table 2).
template <int F>
  requires(F > 0)
struct LayerGroups {
  using role = roles::Layout;
  static constexpr bool layerwise = true;
  static constexpr int group = F;

  static constexpr LayerBlocks room(TokenBlocks blocks, int resident, int /*layers*/) {
    return LayerBlocks{blocks.count() * ((resident + F - 1) / F) * F};
  }
};

} // namespace sluice
