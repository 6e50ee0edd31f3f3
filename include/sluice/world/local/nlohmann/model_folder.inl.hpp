// SPDX-License-Identifier: Apache-2.0
// read_model: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/world/local/nlohmann/model_folder.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

namespace sluice {

SLUICE_READERS_INLINE Expected<LocalModel> read_model(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    return Error{ErrorCode::not_found, "the model", "there is no folder '" + excerpt(folder, 200) + "'",
                 "a folder with config.json and *.safetensors"};
  Expected<ModelWeights> weights = read_checkpoint(folder);
  if (!weights) return weights.error();
  return LocalModel{folder, std::move(*weights), nullptr};
}

SLUICE_READERS_INLINE Expected<std::unique_ptr<Tokenizer>> read_byte_tokenizer(const std::string& folder) {
  for (const char* file : {"tokenizer.json", "vocab.json", "tokenizer.model"}) {
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::path(folder) / file, ignored))
      return Error{ErrorCode::unsupported, folder,
                   std::string{"its "} + file + " needs ICU, which this build is without",
                   "token ids, or a build with ICU"};
  }
  return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
}

} // namespace sluice
