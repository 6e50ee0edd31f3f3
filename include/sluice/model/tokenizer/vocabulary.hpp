// SPDX-License-Identifier: Apache-2.0
// Vocabulary: tokens by name and number, and the bytes that each represents. AddedTokens: finds those spelled out.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

/// Above every existing vocabulary, as in `shape_from_hf_config`; a larger number means a broken file.
inline constexpr std::int32_t most_tokens = std::int32_t{1} << 24;

/// The tokens of a tokenizer. A token has a *name*, its spelling in the file ("Ġthe", "▁the", "<0x0A>"), and a *text*,
/// the bytes that it decodes to (" the", " the", "\n"). Numbers may have gaps; a number in a gap decodes to nothing.
class Vocabulary {
 public:
  /// Adds token `id`. The error (without a place) says what is repeated or out of range.
  [[nodiscard]] Status add(std::int64_t id, std::string_view name, std::string_view text, bool special);

  /// Changes an existing token's text (an added token's text is its name), and whether it is special.
  [[nodiscard]] Status change(std::int32_t id, std::string_view text, bool special);

  /// One more than the highest number: the fewest rows that an embedding needs.
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  /// The number of tokens.
  [[nodiscard]] std::size_t count() const { return count_; }

  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view name) const;
  [[nodiscard]] bool has(std::int32_t id) const;
  /// The bytes of a token; none for a number that is no token (a model's vocabulary is often padded).
  [[nodiscard]] std::string_view text_of(std::int32_t id) const;
  [[nodiscard]] bool is_special(std::int32_t id) const;

 private:
  struct Token {
    std::uint32_t begin = 0; ///< in `texts_`
    std::uint32_t bytes = 0;
    bool there = false;
    bool special = false;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };

  Status put(std::size_t at, std::string_view text, bool special);

  std::string texts_; ///< one after another: a std::string each would take four times the memory
  std::vector<Token> tokens_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::size_t count_ = 0;
};

// AddedTokens: finds tokens that are spelled out in a text, before any other step.

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

#ifndef SLUICE_COMPILED
#include "sluice/model/tokenizer/vocabulary.inl.hpp"
#endif
