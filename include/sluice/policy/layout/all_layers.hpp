// SPDX-License-Identifier: Apache-2.0
// AllLayers: a unit of KV memory spans every layer (block-first, as SuperInfer's DuplexKV lays it out).
#pragma once

#include "sluice/policy/layout/layout.hpp"

namespace sluice {

/// All layers of a block are contiguous: transfers are large (2 to 4 MiB instead of 32 to 64 KiB), but a request is
/// resident as a whole or not at all.
struct AllLayers {
  using role = roles::Layout;
  static constexpr bool layerwise = false;

  static constexpr LayerBlocks room(TokenBlocks blocks, int resident, int layers) {
    return LayerBlocks{resident > 0 ? blocks.count() * layers : 0};
  }
};

} // namespace sluice
