// SPDX-License-Identifier: Apache-2.0
// BytePairTokenizer: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/model/tokenizer/icu/byte_pair_tokenizer.hpp"

#include <cstddef>
#include <string>
#include <utility>

namespace sluice::detail {

/// A range of a text, and whether a split cuts at it.
struct SplitRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool delimiter = false;
};

/// The pieces that `behavior` makes from ranges that cover a text without gaps.
[[nodiscard]] inline std::vector<SplitRange> split_pieces(const std::vector<SplitRange>& ranges,
                                                          SplitBehavior behavior) {
  std::vector<SplitRange> pieces;
  bool joins = false; // the next range is appended to the last piece
  for (const SplitRange& range : ranges) {
    bool join = joins;
    joins = false;
    switch (behavior) {
    case SplitBehavior::removed:
      if (range.delimiter) continue;
      break;
    case SplitBehavior::isolated:
      break;
    case SplitBehavior::merged_with_previous: // a delimiter ends the piece before it, unless that piece is a delimiter
      join = range.delimiter && !pieces.empty() && !pieces.back().delimiter;
      break;
    case SplitBehavior::merged_with_next: // a delimiter begins the piece after it, unless that piece is a delimiter
      join = join && !range.delimiter;
      joins = range.delimiter;
      break;
    case SplitBehavior::contiguous:
      join = !pieces.empty() && pieces.back().delimiter == range.delimiter;
      break;
    }
    if (join) {
      pieces.back().end = range.end;
      pieces.back().delimiter = range.delimiter || behavior == SplitBehavior::merged_with_previous;
    } else {
      pieces.push_back(range);
    }
  }
  return pieces;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_MODEL_INLINE Expected<std::vector<TextPiece>> PreTokenizer::apply(TextPiece text) const {
  std::vector<TextPiece> pieces;
  if (!text.text.empty()) pieces.push_back(std::move(text));
  for (const Step& step : steps_) {
    std::vector<TextPiece> next;
    for (TextPiece& piece : pieces) {
      const Status status = std::visit([&](const auto& kind) { return apply_step(kind, piece, next); }, step);
      if (!status) return status.error();
    }
    pieces = std::move(next);
  }
  return pieces;
}

SLUICE_MODEL_INLINE Status PreTokenizer::apply_step(const SplitStep& step, const TextPiece& piece,
                                                    std::vector<TextPiece>& out) {
  std::vector<detail::SplitRange> ranges;
  std::size_t from = 0;
  const Status status = step.pattern.each_match(piece.text, [&](std::size_t begin, std::size_t end) {
    if (from < begin) ranges.push_back({from, begin, step.invert});
    ranges.push_back({begin, end, !step.invert});
    from = end;
  });
  if (!status) return status.error();
  if (from < piece.text.size()) ranges.push_back({from, piece.text.size(), step.invert});
  for (const detail::SplitRange& range : detail::split_pieces(ranges, step.behavior))
    out.push_back({piece.text.substr(range.begin, range.end - range.begin), piece.begins_text && range.begin == 0});
  return {};
}

SLUICE_MODEL_INLINE Status PreTokenizer::apply_step(SpaceBeforeStep /*step*/, TextPiece& piece,
                                                    std::vector<TextPiece>& out) {
  if (piece.text.front() != ' ') piece.text.insert(0, 1, ' ');
  out.push_back(std::move(piece));
  return {};
}

SLUICE_MODEL_INLINE Status PreTokenizer::apply_step(const MetaspaceStep& step, TextPiece& piece,
                                                    std::vector<TextPiece>& out) {
  std::string text;
  for (const char character : piece.text) {
    if (character == ' ') {
      text += step.replacement;
    } else {
      text += character;
    }
  }
  const bool wanted = step.prepend == MetaspaceStep::Prepend::always ||
                      (step.prepend == MetaspaceStep::Prepend::first && piece.begins_text);
  if (wanted && text.rfind(step.replacement, 0) != 0) text.insert(0, step.replacement);
  std::size_t begin = 0;
  while (step.split) {
    const std::size_t next = text.find(step.replacement, begin + 1);
    if (next == std::string::npos) break;
    out.push_back({text.substr(begin, next - begin), piece.begins_text && begin == 0});
    begin = next;
  }
  out.push_back({text.substr(begin), piece.begins_text && begin == 0});
  return {};
}

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
