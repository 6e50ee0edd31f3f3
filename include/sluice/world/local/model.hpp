// SPDX-License-Identifier: Apache-2.0
// LocalModel: a model that this machine can run, weights and a tokenizer; encode_prompt, encode_chat: tokens for it.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/weights.hpp"
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Made by one of the functions below, or read from a folder
/// (world/local/nlohmann/model_folder.hpp).
struct LocalModel {
  std::string name; ///< the folder as it was given; errors name the model by it
  ModelWeights weights;
  std::unique_ptr<Tokenizer> tokenizer; ///< null if only token ids are given
};

/// A model that needs no files: a small random Llama, whose tokens are bytes.
[[nodiscard]] inline LocalModel tiny_model(std::uint64_t seed = tiny_llama_seed) {
  return {"tiny", tiny_llama(seed), std::make_unique<ByteTokenizer>()};
}

/// The models that need no files, by name.
struct TinyModel {
  std::string_view name;
  ModelWeights (*weights)(std::uint64_t seed);

  [[nodiscard]] LocalModel make(std::uint64_t seed) const {
    return {std::string{name}, weights(seed), std::make_unique<ByteTokenizer>()};
  }
};
inline constexpr TinyModel tiny_models[]{{"tiny", tiny_llama},
                                         {"tiny-window", tiny_windows},
                                         {"tiny-mla", tiny_latent},
                                         {"tiny-mla-experts", tiny_latent_experts},
                                         {"tiny-delta", tiny_delta}};
/// Returns null if there is none of this name.
[[nodiscard]] inline const TinyModel* find_tiny_model(std::string_view name) {
  const TinyModel* const found = std::find_if(std::begin(tiny_models), std::end(tiny_models),
                                              [&](const TinyModel& one) { return one.name == name; });
  return found == std::end(tiny_models) ? nullptr : found;
}

// encode_prompt, encode_chat: a text's tokens, for the model that continues it.

namespace detail {

/// Checks that the model has all tokens that the tokenizer made: the tokenizer may belong to another model.
[[nodiscard]] inline Expected<std::vector<std::int32_t>> in_vocabulary(const LocalModel& model,
                                                                       Expected<std::vector<std::int32_t>> tokens) {
  if (!tokens) return Error{tokens.error().code, "the prompt", tokens.error().what, tokens.error().expected};
  const int vocabulary = model.weights.config.shape.vocabulary;
  const auto outside =
      std::find_if(tokens->begin(), tokens->end(), [&](std::int32_t token) { return token >= vocabulary; });
  if (outside == tokens->end()) return tokens;
  return Error{ErrorCode::not_found, "the prompt",
               "the tokenizer of " + model.name + " makes the token " + std::to_string(*outside) +
                   " of it, and the model has " + std::to_string(vocabulary),
               "a tokenizer that belongs to the model"};
}

} // namespace detail

/// The tokens of a text that the model continues. Errors: the tokenizer refuses the text, or belongs to another model.
[[nodiscard]] inline Expected<std::vector<std::int32_t>> encode_prompt(const LocalModel& model, std::string_view text) {
  SLUICE_ASSERT(model.tokenizer != nullptr, "a model with a tokenizer");
  return detail::in_vocabulary(model, model.tokenizer->encode(text));
}

/// The tokens of a user's message to a model trained to answer, in the given format.
[[nodiscard]] inline Expected<std::vector<std::int32_t>> encode_chat(const LocalModel& model, ChatFormat format,
                                                                     std::string_view text) {
  SLUICE_ASSERT(model.tokenizer != nullptr, "a model with a tokenizer");
  const ChatMessage message{"user", std::string{text}};
  const Expected<std::string> whole = chat_text(format, {&message, 1});
  if (!whole) return whole.error();
  return detail::in_vocabulary(model, model.tokenizer->encode(*whole, AddSpecial::no));
}

} // namespace sluice
