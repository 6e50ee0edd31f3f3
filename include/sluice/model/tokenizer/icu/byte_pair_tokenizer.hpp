// SPDX-License-Identifier: Apache-2.0
// BytePairTokenizer: runs the steps of a tokenizer.json whose model is byte-pair encoding.
#pragma once

#include "sluice/model/tokenizer/added_tokens.hpp"
#include "sluice/model/tokenizer/byte_pair_model.hpp"
#include "sluice/model/tokenizer/icu/normalizer.hpp"
#include "sluice/model/tokenizer/icu/pre_tokenizer.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// The encoding steps, in order.
struct BytePairPipeline {
  AddedTokens raw_tokens; ///< found in the raw text
  Normalizer normalizer;
  AddedTokens normalized_tokens; ///< found in the normalised text
  PreTokenizer pre_tokenizer;
  BytePairModel model;
  std::vector<std::int32_t> before; ///< what AddSpecial puts around a text
  std::vector<std::int32_t> after;
};

class BytePairTokenizer final : public Tokenizer {
 public:
  /// The numbers in `pipeline` are tokens of `vocabulary`.
  BytePairTokenizer(Vocabulary vocabulary, TokenizerTraits traits, BytePairPipeline pipeline)
      : Tokenizer(std::move(vocabulary), std::move(traits)), pipeline_(std::move(pipeline)) {}

  [[nodiscard]] Expected<std::vector<std::int32_t>> encode(std::string_view text,
                                                           AddSpecial add = AddSpecial::yes) const override {
    if (Status status = check_length(text); !status) return status.error();
    std::vector<std::int32_t> tokens;
    if (add == AddSpecial::yes) tokens = pipeline_.before;
    BytePairMerges::Workspace workspace;
    for (const TextPart& part : pipeline_.raw_tokens.split(text)) {
      if (part.token) {
        tokens.push_back(*part.token);
        continue;
      }
      const std::string_view raw = text.substr(part.begin, part.end - part.begin);
      const Expected<std::string> normalized = pipeline_.normalizer.apply(std::string(raw));
      if (!normalized) return normalized.error();
      if (Status status = check_length(*normalized); !status) return status.error();
      for (const TextPart& inner : pipeline_.normalized_tokens.split(*normalized)) {
        if (inner.token) {
          tokens.push_back(*inner.token);
          continue;
        }
        const Expected<std::vector<TextPiece>> pieces = pipeline_.pre_tokenizer.apply(
            {normalized->substr(inner.begin, inner.end - inner.begin), part.begin == 0 && inner.begin == 0});
        if (!pieces) return pieces.error();
        for (const TextPiece& piece : *pieces) pipeline_.model.encode(piece.text, vocabulary(), tokens, workspace);
      }
    }
    if (add == AddSpecial::yes) tokens.insert(tokens.end(), pipeline_.after.begin(), pipeline_.after.end());
    return tokens;
  }

 private:
  BytePairPipeline pipeline_;
};

} // namespace sluice
