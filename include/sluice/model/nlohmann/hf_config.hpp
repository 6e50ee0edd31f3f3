// SPDX-License-Identifier: Apache-2.0
// read_hf_config: the shape of a decoder from a Hugging Face config.json.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/shape.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace sluice {

/// The shape that a parsed config.json describes; `where` opens the error's line. Known model types: llama, mistral,
/// mixtral, opt, qwen2, qwen3 and qwen3_moe. Absent fields take the defaults of Hugging Face's config classes if these
/// follow from other fields (KV heads = heads, head size = hidden / heads); otherwise they are errors.
Expected<ModelShape> shape_from_hf_config(const nlohmann::json& config, const std::string& where);

/// The shape in a config.json: the file itself, or a folder that contains `config.json` (or `model_config.json`, its
/// name in profile bundles). A shape without a name takes the folder's.
Expected<ModelShape> read_hf_config(const std::string& path);

/// Accepts what `--model` takes: a name in `named_models`, a config.json, or a folder with one.
Expected<ModelShape> find_or_read_model(const std::string& name_or_path);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/model/nlohmann/hf_config.inl.hpp"
#endif
