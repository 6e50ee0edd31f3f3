// SPDX-License-Identifier: Apache-2.0
// AddedTokens: finds tokens that are spelled out in a text, before any other step.
#pragma once

#include "sluice/core/compiled.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A token that is recognised wherever a text contains its spelling.
struct AddedToken {
  std::string spelling;
  std::int32_t id = 0;
  bool takes_spaces_before = false; ///< "lstrip"
  bool takes_spaces_after = false;  ///< "rstrip"
};

/// A part of a text: an added token, or the text between two of them.
struct TextPart {
  std::optional<std::int32_t> token;
  std::size_t begin = 0;
  std::size_t end = 0;

  friend bool operator==(const TextPart&, const TextPart&) = default;
};

/// The added tokens of one pass (a tokenizer.json has two: over the raw text and over the normalised text).
class AddedTokens {
 public:
  void add(AddedToken token);

  [[nodiscard]] bool empty() const { return count_ == 0; }

  /// The parts of `text` in order, none of them empty. Of two tokens that begin at one place the longer wins; of two
  /// that overlap, the first. White space that a token takes belongs to its part.
  [[nodiscard]] std::vector<TextPart> split(std::string_view text) const;

 private:
  [[nodiscard]] const AddedToken* find(std::string_view text) const;

  static std::size_t end_of_spaces(std::string_view text, std::size_t at);

  /// Where the white space that ends at `end` begins, but not before `least`.
  static std::size_t begin_of_spaces(std::string_view text, std::size_t least, std::size_t end);

  /// By first byte, the longest first. (A vocabulary has at most some hundred added tokens, with few different first
  /// bytes.)
  std::array<std::vector<AddedToken>, 256> by_first_;
  std::size_t count_ = 0;
};

} // namespace sluice

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/added_tokens.inl.hpp"
#endif
