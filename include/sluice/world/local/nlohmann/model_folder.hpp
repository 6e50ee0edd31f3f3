// SPDX-License-Identifier: Apache-2.0
// read_model: a model that this machine can run, from a Hugging Face folder.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/world/local/model.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace sluice {

/// Reads the folder's weights by mapping its files, but no tokenizer: `read_tokenizer` (model/tokenizer/icu) reads that
/// from the same folder, and `read_byte_tokenizer` does in a program without ICU.
[[nodiscard]] inline Expected<LocalModel> read_model(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    return Error{ErrorCode::not_found, "the model", "there is no folder '" + excerpt(folder, 200) + "'",
                 "a folder with config.json and *.safetensors"};
  Expected<ModelWeights> weights = read_checkpoint(folder);
  if (!weights) return weights.error();
  return LocalModel{folder, std::move(*weights), nullptr};
}

/// Makes the tokenizer of a folder without a tokenizer file, whose tokens are bytes: all that is possible without ICU.
/// If the folder has such a file, that is an error: bytes would be another text to the model, and no error would show
/// it.
[[nodiscard]] inline Expected<std::unique_ptr<Tokenizer>> read_byte_tokenizer(const std::string& folder) {
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
