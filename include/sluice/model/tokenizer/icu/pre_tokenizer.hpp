// SPDX-License-Identifier: Apache-2.0
// PreTokenizer: cuts a normalised text into pieces; merges never cross pieces.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/icu/pattern.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

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

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/icu/pre_tokenizer.inl.hpp"
#endif
