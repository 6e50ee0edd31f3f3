// SPDX-License-Identifier: Apache-2.0
// Decoders whose layers attend to K and V of all tokens, of a window or of a chunk, from a Hugging Face config.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/nlohmann/hf_fields.hpp"
#include "sluice/model/nlohmann/hf_modules.hpp"

#include <string_view>
#include <vector>

namespace sluice {

/// Which layers have experts: by `mlp_layer_types`, `moe_layer_freq`, `first_k_dense_replace`, or
/// `decoder_sparse_step` and `mlp_only_layers`; all layers, where a config has experts and none of these.
std::vector<bool> hf_sparse_layers(HfFields& fields, int layers);

/// Each layer's window in tokens, 0 for all tokens: by `layer_types` ("full_attention", "sliding_attention",
/// "chunked_attention"), or else by `pattern`: every `pattern`-th layer attends to all tokens (0: none has a window).
std::vector<int> hf_windows(HfFields& fields, int layers, int window, int pattern);

/// Whether `hf_decoder` knows the model type.
bool hf_knows_decoder(std::string_view type);

/// Each layer's window as the class of the type has it, 0 for all tokens; the type is one that `hf_knows_decoder`. A
/// switch that is off ends every window; a window that the class does not use is refused, since either the type or the
/// field is wrong.
std::vector<int> hf_decoder_windows(HfFields& fields, int layers, std::string_view type);

/// Adds the layers of a decoder whose type `hf_knows_decoder`.
void hf_decoder(HfFields& fields, HfModules& modules, ModelDescription& model, std::string_view type);
/// Gemma 2, 3 and 4: windows, and four norms or more in a layer.
void hf_gemma(HfFields& fields, HfModules& modules, ModelDescription& model, std::string_view type);
/// Llama 4: chunked attention beside full, and experts in every n-th layer.
void hf_llama4(HfFields& fields, HfModules& modules, ModelDescription& model);
/// Llama-Nemotron (nemotron-nas): sizes per layer, some without attention or MLP.
void hf_nemotron_nas(HfFields& fields, HfModules& modules, ModelDescription& model);
/// MiMo-V2: heads of their own in layers with a window.
void hf_mimo_v2(HfFields& fields, HfModules& modules, ModelDescription& model);
/// MiniMax-M3: a block-sparse indexer beside grouped-query attention.
void hf_minimax_m3(HfFields& fields, HfModules& modules, ModelDescription& model);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/model/nlohmann/hf_decoders.inl.hpp"
#endif
