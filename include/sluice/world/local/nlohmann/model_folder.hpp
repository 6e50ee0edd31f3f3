// SPDX-License-Identifier: Apache-2.0
// read_model: a model that this machine can run, from a Hugging Face folder.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/world/local/model.hpp"

#include <memory>
#include <string>

namespace sluice {

/// Reads the folder's weights by mapping its files, but no tokenizer: `read_tokenizer` (model/tokenizer/icu) reads that
/// from the same folder, and `read_byte_tokenizer` does in a program without ICU.
[[nodiscard]] Expected<LocalModel> read_model(const std::string& folder);

/// Makes the tokenizer of a folder without a tokenizer file, whose tokens are bytes: all that is possible without ICU.
/// If the folder has such a file, that is an error: bytes would be another text to the model, and no error would show
/// it.
[[nodiscard]] Expected<std::unique_ptr<Tokenizer>> read_byte_tokenizer(const std::string& folder);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/world/local/nlohmann/model_folder.inl.hpp"
#endif
