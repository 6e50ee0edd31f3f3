// SPDX-License-Identifier: Apache-2.0
// open_model, model_folder: the model of the command line.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/world/local/model.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace running {

/// The folder that `name` stands for: demo's beside the program, any other name is the folder's own. Not for tiny.
std::string model_folder(const std::string& name);

/// `name`: a folder, tiny or demo. `text`: the tokenizer is wanted too. `random`: the seed of weights that are drawn,
/// of a folder that need not have any, or of a model that is known by name.
sluice::Expected<sluice::LocalModel> open_model(const std::string& name, bool text,
                                                std::optional<std::uint64_t> random = std::nullopt);

/// What tiny and demo are, in some lines.
std::string models_text();

} // namespace running
