// SPDX-License-Identifier: Apache-2.0
// WeightStream: weights that pass through device slots in every iteration.
#pragma once

#include "sluice/core/layer_set.hpp"

namespace sluice {

/// Weights that pass through device slots in every iteration (Select-N, MIRAGE): the same number of blocks of each of
/// these layers, one layer per slot, in layer order and round again with the next token. A layer's transfer may start
/// when the layer that had its slot, `slots` streamed layers before it, has been computed. This covers Select-N's
/// interval (one slot) and MIRAGE's alpha + 1 layers in one slot or alpha + 2 in two. The slots lie outside the KV
/// budget.
struct WeightStream {
  LayerSet layers;   ///< the layers whose weights stream
  double blocks = 0; ///< layer blocks (of KV) of each layer, > 0 if there are layers
  int slots = 1;     ///< each for one layer's blocks; 1 to the number of layers

  /// Whether nothing streams.
  [[nodiscard]] bool empty() const { return layers.empty(); }

  friend bool operator==(const WeightStream&, const WeightStream&) = default;
};

} // namespace sluice
