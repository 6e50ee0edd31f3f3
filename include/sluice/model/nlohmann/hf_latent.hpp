// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention (DeepSeek-V2 and later), with sparse attention's indexer and with compressed entries.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/nlohmann/hf_fields.hpp"
#include "sluice/model/nlohmann/hf_modules.hpp"

#include <string_view>

namespace sluice {

/// The sizes of latent attention.
struct HfLatent {
  int heads = 0;
  int query_rank = 0; ///< 0: Q is projected directly
  int rank = 0;       ///< of the latent from which K and V are computed
  int nope = 0;       ///< size of a head's part without rotation
  int rope = 0;       ///< size of the rotated part, which all heads share in K
  int value = 0;
  int picked = 0;    ///< sparse attention: latents that a token attends to at most; 0: all
  bool gate = false; ///< a gate on the output (Kimi-K3)
};

HfLatent hf_latent_sizes(HfFields& fields);
/// Adds the projections of latent attention, and its KV: one latent per token. `indexed`: the layout of sparse
/// attention, which keeps scales beside FP8 latents and the rotated part in two bytes.
void hf_latent_attention(HfModules& modules, const HfLatent& of, bool indexed);

/// Whether `hf_latent` knows the model type.
bool hf_knows_latent(std::string_view type);
/// Decoders with latent attention in every layer: DeepSeek-V2, V3, V3.2, Kimi-K2, GLM-5.
void hf_latent(HfFields& fields, HfModules& modules, ModelDescription& model, std::string_view type);
/// DeepSeek-V4: a window, entries per 4 or per 128 tokens, and hyper-connections.
void hf_deepseek_v4(HfFields& fields, HfModules& modules, ModelDescription& model);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/model/nlohmann/hf_latent.inl.hpp"
#endif
