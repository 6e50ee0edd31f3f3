// SPDX-License-Identifier: Apache-2.0
// open_model: the model of the command line.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/local/model.hpp"

#include <string>

namespace running {

/// `name`: a folder, or tiny. `text`: the tokenizer is wanted too.
sluice::Expected<sluice::LocalModel> open_model(const std::string& name, bool text);

/// What tiny is, in some lines.
std::string tiny_text();

} // namespace running
