// SPDX-License-Identifier: Apache-2.0
// sluice-plan --models: weights and KV of the models in a folder of folders.
#pragma once

#include "sluice/core/expected.hpp"

#include <string>

namespace planned {

/// Prints a row, or with `json` a line, for each folder in `folder` that has a config.json: the model's sizes, or why
/// they cannot be read. `kv_dtype`: one of kv_dtypes(), what engines keep K and V in.
sluice::Status print_models(const std::string& folder, bool json, const std::string& kv_dtype);

/// Prints the model types that are read, as a Markdown table.
void print_model_types();

} // namespace planned
