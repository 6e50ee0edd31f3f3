// SPDX-License-Identifier: Apache-2.0
// read_hf_description: weights and KV of a model, exact to the byte, from a Hugging Face config.json.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/description.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// Model types that are read alike.
struct HfModelTypes {
  std::string_view types;  ///< values of model_type, separated by ", "
  std::string_view models; ///< the models that have them
  std::string_view kv;     ///< what a layer keeps of a request
};

/// All types that `describe_hf_config` reads. docs/models.md has this table.
std::span<const HfModelTypes> hf_model_types();

/// The text model that a parsed config.json describes. `side` is hf_quant_config.json beside it, or null. `where` opens
/// an error's line. `kv_element_bytes`: what an engine stores KV in; 0: what the checkpoint says, else its data type.
///
/// What a config leaves open is refused, unless Hugging Face's class has a default that follows from other fields, or
/// the data type is absent (2 bytes). docs/models.md lists the model types.
Expected<ModelDescription> describe_hf_config(const nlohmann::json& config, const nlohmann::json* side,
                                              const std::string& where, int kv_element_bytes = 0);

/// hf_quant_config.json beside a config.json at `config_path`, or nothing if there is none.
Expected<std::optional<nlohmann::json>> read_hf_side_file(const std::string& config_path);

/// The model in a folder with a config.json, or in that file; hf_quant_config.json beside it is read too. A model whose
/// config has no name takes the folder's.
Expected<ModelDescription> read_hf_description(const std::string& path, int kv_element_bytes = 0);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/model/nlohmann/hf_description.inl.hpp"
#endif
