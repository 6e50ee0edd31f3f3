// SPDX-License-Identifier: Apache-2.0
// BytePairTokenizer: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/model/tokenizer/icu/byte_pair_tokenizer.hpp"

#include <string>
#include <utility>

namespace sluice {

SLUICE_MODEL_INLINE BytePairTokenizer::BytePairTokenizer(Vocabulary vocabulary, TokenizerTraits traits,
                                                         BytePairPipeline pipeline)
    : Tokenizer(std::move(vocabulary), std::move(traits)), pipeline_(std::move(pipeline)) {}

SLUICE_MODEL_INLINE Expected<std::vector<std::int32_t>> BytePairTokenizer::encode(std::string_view text,
                                                                                  AddSpecial add) const {
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

} // namespace sluice
