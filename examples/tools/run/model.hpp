// SPDX-License-Identifier: Apache-2.0
// Model: weights and tokenizer, of a folder or made.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/decoder/weights.hpp"
#include "sluice/tokenizer/tokenizer.hpp"

#include <memory>
#include <string>

namespace running {

struct Model {
  sluice::ModelWeights weights;
  std::unique_ptr<sluice::Tokenizer> tokenizer; ///< none where only tokens are given
};

/// `name`: a folder, or tiny. `text`: the tokenizer is wanted too.
sluice::Expected<Model> open_model(const std::string& name, bool text);

/// What tiny is, in some lines.
std::string tiny_text();

} // namespace running
