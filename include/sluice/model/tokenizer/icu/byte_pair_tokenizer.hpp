// SPDX-License-Identifier: Apache-2.0
// BytePairTokenizer: runs the steps of a tokenizer.json whose model is byte-pair encoding.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/tokenizer/added_tokens.hpp"
#include "sluice/model/tokenizer/byte_pair_model.hpp"
#include "sluice/model/tokenizer/icu/normalizer.hpp"
#include "sluice/model/tokenizer/icu/pre_tokenizer.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <string_view>
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
  BytePairTokenizer(Vocabulary vocabulary, TokenizerTraits traits, BytePairPipeline pipeline);

  [[nodiscard]] Expected<std::vector<std::int32_t>> encode(std::string_view text,
                                                           AddSpecial add = AddSpecial::yes) const override;

 private:
  BytePairPipeline pipeline_;
};

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/icu/byte_pair_tokenizer.inl.hpp"
#endif
