// SPDX-License-Identifier: Apache-2.0
// read_model: a model that this machine can run, from a Hugging Face folder.
#pragma once

#include "sluice/checkpoint/nlohmann/hf_folder.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/local/model.hpp"
#include "sluice/tokenizer/bytes.hpp"
#include "sluice/tokenizer/tokenizer.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace sluice {

/// Reads the weights of the folder, mapped where they lie, and no tokenizer: `read_tokenizer` (tokenizer/icu) reads the
/// one in the same folder, and `read_byte_tokenizer` does in a program without ICU.
[[nodiscard]] inline Expected<LocalModel> read_model(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    return Error{ErrorCode::not_found, "the model", "there is no folder '" + excerpt(folder, 200) + "'",
                 "a folder with config.json and *.safetensors"};
  Expected<ModelWeights> weights = read_checkpoint(folder);
  if (!weights) return weights.error();
  return LocalModel{folder, std::move(*weights), nullptr};
}

/// Reads the tokenizer of a folder whose tokens are bytes, because it has no tokenizer file: all that can be done
/// without ICU. A folder with such a file is an error and not taken for one without: as bytes, a text would be another
/// one to the model, and no error would say so.
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
