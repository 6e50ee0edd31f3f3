// SPDX-License-Identifier: Apache-2.0
// open_model, model_folder: the model of the command line.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/world/local/model.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace running {

/// A model without a folder (`tiny_models`).
bool is_made(const std::string& name);

/// The folder of the model `name`: for demo the one next to the program, for any other name that folder. Not for one
/// that is made.
std::string model_folder(const std::string& name);

/// What a program's errors about a model suggest: only flags that it has.
struct ModelHints {
  const char* by_name = "--random-weights";                      ///< the flag with which a model's name is enough
  const char* without_icu = "--prompt-ids, or a build with ICU"; ///< for a tokenizer that needs ICU
};

/// `name`: a folder, one that `is_made`, or demo. `text`: whether the tokenizer is needed, too. `random`: seed of
/// random weights, for a folder that may have none or for a named model.
sluice::Expected<sluice::LocalModel> open_model(const std::string& name, bool text,
                                                std::optional<std::uint64_t> random = std::nullopt,
                                                const ModelHints& hints = {});

/// Descriptions of those that are made, and of demo.
std::string models_text();

} // namespace running
