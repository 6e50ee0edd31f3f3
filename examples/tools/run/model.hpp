// SPDX-License-Identifier: Apache-2.0
// open_model, model_folder: the model of the command line.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/world/local/model.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace running {

/// The folder of the model `name`: for demo the one next to the program, for any other name that folder. Not for tiny.
std::string model_folder(const std::string& name);

/// `name`: a folder, tiny or demo. `text`: whether the tokenizer is needed, too. `random`: seed of random weights, for
/// a folder that may have none or for a named model.
sluice::Expected<sluice::LocalModel> open_model(const std::string& name, bool text,
                                                std::optional<std::uint64_t> random = std::nullopt);

/// Descriptions of tiny and demo.
std::string models_text();

} // namespace running
