// SPDX-License-Identifier: Apache-2.0
// WeightStream: weights that pass through slots of the device in every iteration.
#pragma once

#include "sluice/core/layer_set.hpp"

namespace sluice {

/// Weights that pass through slots of the device in every iteration (Select-N, MIRAGE): of each of these layers the
/// same number of blocks, one layer a slot, one after the other in layer order and round again with the next token. A
/// layer's transfer may start when the one that had its slot, `slots` streamed layers before it, has been computed:
/// Select-N's interval (one slot), MIRAGE's alpha + 1 layers in one slot and alpha + 2 in two. The slots lie outside
/// the KV budget.
struct WeightStream {
  LayerSet layers;   ///< whose weights stream
  double blocks = 0; ///< of each layer, in layer blocks of KV, > 0 where there are layers
  int slots = 1;     ///< of one layer's blocks each, 1 to the number of layers

  /// Nothing streams.
  [[nodiscard]] bool empty() const { return layers.empty(); }

  friend bool operator==(const WeightStream&, const WeightStream&) = default;
};

} // namespace sluice
