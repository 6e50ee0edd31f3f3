// SPDX-License-Identifier: Apache-2.0
// Hugging Face's names for the tensors of a decoder.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/decoder/config.hpp"
#include "sluice/model/decoder/weights.hpp"

#include <string>

namespace sluice {

/// The names of a decoder's tensors outside the layers, without the prefix "model.", which some checkpoints lack.
struct OuterTensorNames {
  std::string embedding, positions, final_norm, final_norm_bias;
  std::string head = "lm_head.weight"; ///< never has the prefix
};

/// Learned positions identify OPT's family; the others share their names.
[[nodiscard]] OuterTensorNames outer_tensor_names(const DecoderConfig& config);

/// The name of a layer's tensor, without the prefix. `expert` is used only for an expert's tensor.
[[nodiscard]] std::string layer_tensor_name(const DecoderConfig& config, int layer, LayerTensor tensor, int expert);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/checkpoint/tensor_names.inl.hpp"
#endif
