// SPDX-License-Identifier: Apache-2.0
// Hybrids: decoders of which some layers keep a state of fixed size (gated delta rule, KDA, Mamba-2).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/nlohmann/hf_fields.hpp"
#include "sluice/model/nlohmann/hf_modules.hpp"

#include <string_view>
#include <vector>

namespace sluice {

/// Which layers keep a state of the gated delta rule: those that `layer_types` calls "linear_attention" (the others are
/// "full_attention"), or else all but every `full_attention_interval`-th.
std::vector<bool> hf_state_layers(HfFields& fields, int layers);

/// Qwen3-Next, Qwen3.5 and Qwen3.6: the gated delta rule in three of four layers, gated attention in the fourth.
void hf_gated_delta(HfFields& fields, HfModules& modules, ModelDescription& model, std::string_view type);
/// Kimi Linear and Kimi-K3: Kimi delta attention, and latent attention without rotation.
void hf_kimi_linear(HfFields& fields, HfModules& modules, ModelDescription& model);
/// Granite 3 with experts; Granite 4: Mamba-2 and attention, each followed by experts and a shared MLP, or by the MLP
/// alone.
void hf_granite_moe(HfFields& fields, HfModules& modules, ModelDescription& model, std::string_view type);
/// Nemotron-H and Nemotron 3: Mamba-2, attention, MLP or experts, one of them per layer.
void hf_nemotron_h(HfFields& fields, HfModules& modules, ModelDescription& model);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/model/nlohmann/hf_states.inl.hpp"
#endif
