// SPDX-License-Identifier: Apache-2.0
// BytePairModel: the tokens of one piece of text by merging pairs, from bytes (GPT-2) or characters (SentencePiece).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/vocabulary.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// The characters with which byte-level vocabularies spell bytes ("Ġ" is a space), from GPT-2.

/// The character of each byte: printable Latin-1 characters represent themselves; the others are U+0100 and up, in
/// order (Radford et al., 2019: a vocabulary without white space and control characters).
[[nodiscard]] constexpr std::array<char32_t, 256> byte_level_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    characters[byte] = printable ? byte : next++;
  }
  return characters;
}

/// The bytes that a token's name spells; none if one of its characters represents no byte.
[[nodiscard]] std::optional<std::string> bytes_of_byte_level(std::string_view name);

/// The name that spells `text`.
[[nodiscard]] std::string byte_level_name(std::string_view text);

// BytePairMerges: merges the adjacent pair with the lowest rank until no pair can be merged, in O(n log n).

/// The result of merging a pair, and the pair's rank. The pair with the lowest rank is merged first; of pairs with
/// equal rank, the leftmost.
struct Merge {
  std::int32_t rank = 0;
  std::int32_t result = 0;

  friend bool operator==(const Merge&, const Merge&) = default;
};

/// The merges of a vocabulary (Sennrich et al., 2016, and every tokenizer.json of model type BPE).
///
/// An open hash table with 16 bytes per slot: merging consists mostly of lookups, and std::unordered_map took four
/// times the memory for 280,000 merges.
class BytePairMerges {
 public:
  explicit BytePairMerges(std::size_t count = 0);

  /// If a pair is added twice, the last one wins, as in Hugging Face's tokenizers.
  void add(std::int32_t left, std::int32_t right, Merge merge);

  [[nodiscard]] std::optional<Merge> find(std::int32_t left, std::int32_t right) const;

  [[nodiscard]] std::size_t count() const { return count_; }

  /// Memory that calls of `join` reuse.
  struct Workspace {
    struct Symbol {
      std::int32_t token = 0;
      std::int32_t before = -1;
      std::int32_t after = -1; ///< -1: the last
      bool there = true;
    };
    struct Candidate {
      std::int32_t rank = 0;
      std::int32_t left = 0; ///< the pair of this symbol and the one after it
      friend auto operator<=>(const Candidate&, const Candidate&) = default;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
  };

  /// Merges `tokens` from index `first` on, in place. A priority queue over a linked list: an outdated candidate stays
  /// in the queue and is recognised by its rank, which is unique to its pair.
  void join(std::vector<std::int32_t>& tokens, std::size_t first, Workspace& workspace) const;

 private:
  struct Slot {
    std::int32_t left = -1; ///< -1: empty
    std::int32_t right = -1;
    Merge merge;
  };

  /// Where the pair is, or would be inserted. The multiplier is 2^64 over the golden ratio (Fibonacci hashing).
  static std::size_t slot_of(const std::vector<Slot>& slots, std::int32_t left, std::int32_t right);

  void grow();

  std::vector<Slot> slots_; ///< a power of two, at most half full
  std::size_t count_ = 0;
};

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
