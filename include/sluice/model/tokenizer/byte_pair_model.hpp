// SPDX-License-Identifier: Apache-2.0
// BytePairModel: the tokens of one piece of text, from bytes (GPT-2) or characters (SentencePiece).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/byte_pair.hpp"
#include "sluice/model/tokenizer/vocabulary.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// The settings of a file's `model` besides vocabulary and merges.
struct BytePairOptions {
  bool byte_level = false;    ///< symbols are bytes, spelled as `byte_level_characters`; otherwise characters
  bool byte_fallback = false; ///< a character without a token becomes the tokens <0x00> .. <0xFF> of its bytes
  bool fuse_unknown = false;  ///< adjacent characters without a token become one unknown token
  bool whole_first = false;   ///< a piece that is itself a token becomes that token, whatever the merges say
  std::int32_t unknown = -1;  ///< the unknown token; negative: none
};

/// The name of the token for a byte in vocabularies of characters: "<0x0A>".
[[nodiscard]] std::string byte_fallback_name(unsigned char byte);

/// A vocabulary with merges.
class BytePairModel {
 public:
  /// An error if some text would have no tokens: a byte or character without a token or a replacement. (Hugging Face's
  /// tokenizers would drop it silently.)
  [[nodiscard]] static Expected<BytePairModel> make(const Vocabulary& vocabulary, BytePairMerges merges,
                                                    BytePairOptions options);

  /// Appends the tokens of `piece`. `vocabulary` is the one that this was made from.
  void encode(std::string_view piece, const Vocabulary& vocabulary, std::vector<std::int32_t>& tokens,
              BytePairMerges::Workspace& workspace) const;

 private:
  BytePairModel(BytePairMerges merges, BytePairOptions options) : merges_(std::move(merges)), options_(options) {}

  [[nodiscard]] bool has_all(std::string_view bytes) const;

  BytePairMerges merges_;
  BytePairOptions options_;
  std::array<std::int32_t, 256> of_byte_{}; ///< -1: none
};

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/byte_pair_model.inl.hpp"
#endif
