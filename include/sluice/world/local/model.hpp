// SPDX-License-Identifier: Apache-2.0
// LocalModel: a model that this machine can run: weights and a tokenizer.
#pragma once

#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace sluice {

/// Made by `tiny_model`, or read from a folder (world/local/nlohmann/model_folder.hpp).
struct LocalModel {
  std::string name; ///< the folder as it was given; errors name the model by it
  ModelWeights weights;
  std::unique_ptr<Tokenizer> tokenizer; ///< null if only token ids are given
};

/// A model that needs no files: a small random Llama, whose tokens are bytes.
[[nodiscard]] inline LocalModel tiny_model(std::uint64_t seed = tiny_llama_seed) {
  return {"tiny", tiny_llama(seed), std::make_unique<ByteTokenizer>()};
}

} // namespace sluice
