// SPDX-License-Identifier: Apache-2.0
// retyped: the sizes of a model's weights in another element.
#pragma once

#include "sluice/decoder/weights.hpp"

namespace sluice {

/// The configuration, the layout of layers and the matrices outside them as they are with every number an `element`:
/// what memory is divided by before, or without, any number being converted. No byte of it is to be read: no layer has
/// an address, and the matrices have those of `weights`, by which alone a tied head is known.
[[nodiscard]] inline ModelWeights retyped(const ModelWeights& weights, ElementType element) {
  ModelWeights sizes;
  static_cast<OuterWeights&>(sizes) = weights;
  for (Matrix* const matrix :
       {&sizes.embedding, &sizes.positions, &sizes.final_norm, &sizes.final_norm_bias, &sizes.head})
    matrix->type = element;
  sizes.config = weights.config;
  sizes.config.shape.weight_element_bytes = sizes.config.shape.kv_element_bytes = bytes_of(element);
  for (const TensorPlace& place : weights.layout.places)
    sizes.layout.add(place.tensor, place.rows, place.columns, element, place.expert);
  return sizes;
}

} // namespace sluice
