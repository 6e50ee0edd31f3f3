// SPDX-License-Identifier: Apache-2.0
// read_decoder_config: a decoder's configuration from a Hugging Face config.json and generation_config.json.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/decoder/config.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace sluice {

/// The decoder that a parsed config.json describes; `where` opens the error's line. Known model types: llama, mistral,
/// qwen2, qwen3, opt, mixtral, deepseek_v2 and deepseek_v3 (dense layers), in float32, float16 or bfloat16. Refuses by
/// name whatever would be computed wrongly: other activations, rotations or attention windows, norms after the
/// sublayers, unsupported biases.
///
/// Absent fields take the defaults of Hugging Face's classes where older configs lack them; absent sizes, norm epsilons
/// and longest contexts are errors.
Expected<DecoderConfig> decoder_from_hf_config(const nlohmann::json& config, const std::string& where);

/// The decoder that a model's folder describes. If there is a generation_config.json that names end tokens, they
/// replace those of config.json, as in Hugging Face's library.
Expected<DecoderConfig> read_decoder_config(const std::string& folder);

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/checkpoint/nlohmann/decoder_config.inl.hpp"
#endif
