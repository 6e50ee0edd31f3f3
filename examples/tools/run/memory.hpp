// SPDX-License-Identifier: Apache-2.0
// Memory: what of the two memories of a run is for what.
#pragma once

#include "sluice/core/units.hpp"

namespace running {

struct Memory {
  sluice::Bytes weights{0}; ///< all of them
  sluice::Bytes buffers{0}; ///< of an iteration
  sluice::Bytes block{0};   ///< a layer block of KV
  sluice::Bytes device{0};
  sluice::LayerBlocks kv{0};   ///< beside weights and buffers; below 0 where the weights alone are larger
  sluice::LayerBlocks host{0}; ///< of the host
  sluice::LayerBlocks all{0};  ///< of every request at its longest

  [[nodiscard]] sluice::Bytes of(sluice::LayerBlocks blocks) const { return block * blocks.count(); }
  [[nodiscard]] sluice::Bytes with(sluice::LayerBlocks blocks) const { return weights + buffers + of(blocks); }
};

} // namespace running
