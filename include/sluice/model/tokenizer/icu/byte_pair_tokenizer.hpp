// SPDX-License-Identifier: Apache-2.0
// BytePairTokenizer: runs the steps of a tokenizer.json whose model is byte-pair encoding. PreTokenizer: one of them.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/byte_pair_model.hpp"
#include "sluice/model/tokenizer/icu/normalizer.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/model/tokenizer/vocabulary.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

// PreTokenizer: cuts a normalised text into pieces; merges never cross pieces.

/// A piece of a text, with the prefix that earlier steps added.
struct TextPiece {
  std::string text;
  bool begins_text = false; ///< the first piece of the whole text, with no added token before it
};

/// What happens to the matches and to the text between them (the file's names).
enum class SplitBehavior : std::uint8_t {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous ///< adjacent matches become one piece
};

/// Cuts at the matches of a pattern; with `invert`, at the text between them.
struct SplitStep {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;
};

/// Adds a space before each piece that has none ("ByteLevel" with add_prefix_space).
struct SpaceBeforeStep {};

/// SentencePiece's visible spaces ("Metaspace").
struct MetaspaceStep {
  enum class Prepend : std::uint8_t { always, first, never };
  std::string replacement = "\xE2\x96\x81"; ///< U+2581
  Prepend prepend = Prepend::always;
  bool split = true; ///< each replacement begins a piece
};

/// The steps of a file's `pre_tokenizer`, in order; possibly none.
class PreTokenizer {
 public:
  using Step = std::variant<SplitStep, SpaceBeforeStep, MetaspaceStep>;

  void add(Step step) { steps_.push_back(std::move(step)); }

  /// None of the pieces is empty.
  [[nodiscard]] Expected<std::vector<TextPiece>> apply(TextPiece text) const;

 private:
  static Status apply_step(const SplitStep& step, const TextPiece& piece, std::vector<TextPiece>& out);

  static Status apply_step(SpaceBeforeStep /*step*/, TextPiece& piece, std::vector<TextPiece>& out);

  static Status apply_step(const MetaspaceStep& step, TextPiece& piece, std::vector<TextPiece>& out);

  std::vector<Step> steps_;
};

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
