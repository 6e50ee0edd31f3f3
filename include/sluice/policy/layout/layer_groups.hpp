// SPDX-License-Identifier: Apache-2.0
// LayerGroups<F>: a unit of KV memory spans F layers (eLLM, section 5: F = 4).
#pragma once

#include "sluice/policy/layout/layout.hpp"

namespace sluice {

/// A unit holds `F` layers of one token block. If the number of resident layers is not a multiple of `F`, the last unit
/// is partly empty: eLLM accepts this fragmentation for a smaller map (its Table 2).
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
