// SPDX-License-Identifier: Apache-2.0
// read_hf_config: the shape of a decoder from a Hugging Face config.json.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/description.hpp"
#include "sluice/model/shape.hpp"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace sluice {

/// The shape that a parsed config.json describes, for engines: every layer alike, with K and V of every token. `side`
/// is hf_quant_config.json beside it, or null; `where` opens the error's line; `kv_element_bytes` as in
/// `describe_hf_config`.
///
/// llama, mistral, mixtral, opt, qwen2, qwen3 and qwen3_moe without quantisation are read here: absent fields take the
/// defaults of Hugging Face's config classes if these follow from other fields (KV heads = heads, head size = hidden /
/// heads); otherwise they are errors. Everything else is described (`describe_hf_config`), and refused by naming what
/// differs if one size per layer does not describe it.
Expected<ModelShape> shape_from_hf_config(const nlohmann::json& config, const std::string& where,
                                          const nlohmann::json* side = nullptr, int kv_element_bytes = 0);

/// The shape of a described model; an error if its layers differ or its KV is not K and V of every token in each layer.
Expected<ModelShape> shape_of(const ModelDescription& model, const std::string& where);

/// The shape in a config.json: the file itself, or a folder that contains `config.json` (or `model_config.json`, its
/// name in profile bundles). hf_quant_config.json beside it is read too. A shape without a name takes the folder's.
Expected<ModelShape> read_hf_config(const std::string& path, int kv_element_bytes = 0);

/// A model for a simulated engine: a shape, and a description where one shape does not say what its layers are.
struct SimulatedModel {
  ModelShape shape;                          ///< with `layered`: name, layers and widths alone
  std::optional<ModelDescription> layered{}; ///< layers that are not alike, or KV that is not K and V of every token
};

/// `find_or_read_model`, for programs that simulate: also models that engines do not compute.
Expected<SimulatedModel> find_or_read_simulated(const std::string& name_or_path, int kv_element_bytes = 0);

/// Accepts what `--model` takes: a name in `named_models`, a config.json, or a folder with one.
Expected<ModelShape> find_or_read_model(const std::string& name_or_path, int kv_element_bytes = 0);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/model/nlohmann/hf_config.inl.hpp"
#endif
