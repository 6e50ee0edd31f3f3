// SPDX-License-Identifier: Apache-2.0
// learn_byte_pairs: learns a byte-level vocabulary for a text, like GPT-2's.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/icu/byte_pair_tokenizer.hpp"
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_steps.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace training {

/// Tokens 0 to 255 are the bytes; token 256 + i is the result of merge i.
struct BytePairs {
  std::vector<std::string> tokens; ///< their bytes
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;
};

namespace detail {

struct Word {
  std::vector<std::int32_t> tokens;
  std::int64_t times = 0;
};

/// The distinct pieces into which GPT-2's pattern splits the texts.
[[nodiscard]] inline sluice::Expected<std::vector<Word>> count_words(const std::vector<std::string>& texts) {
  sluice::Expected<sluice::Pattern> pattern =
      sluice::Pattern::compile(sluice::detail::gpt2_pattern, sluice::Pattern::Kind::regex, "GPT-2's pattern");
  if (!pattern) return pattern.error();
  sluice::PreTokenizer cuts;
  cuts.add(sluice::SplitStep{std::move(*pattern), sluice::SplitBehavior::isolated, false});
  std::map<std::string, std::int64_t> times; // ordered, so that the vocabulary does not depend on a hash
  for (const std::string& text : texts) {
    const sluice::Expected<std::vector<sluice::TextPiece>> pieces = cuts.apply({text, true});
    if (!pieces) return pieces.error();
    for (const sluice::TextPiece& piece : *pieces) ++times[piece.text];
  }
  std::vector<Word> words;
  for (const auto& [text, count] : times) {
    words.push_back({{}, count});
    for (const char byte : text) words.back().tokens.push_back(static_cast<unsigned char>(byte));
  }
  return words;
}

} // namespace detail

/// Merges the most frequent pair of neighbours within words into a token, until there are `size` tokens or no pair
/// occurs twice. Among equally frequent pairs the one with the lower numbers is merged, so that a text has one
/// vocabulary.
[[nodiscard]] inline sluice::Expected<BytePairs> learn_byte_pairs(const std::vector<std::string>& texts,
                                                                  std::size_t size) {
  sluice::Expected<std::vector<detail::Word>> counted = detail::count_words(texts);
  if (!counted) return counted.error();
  std::vector<detail::Word>& words = *counted;
  BytePairs pairs;
  for (int byte = 0; byte < 256; ++byte)
    pairs.tokens.emplace_back(1, static_cast<char>(static_cast<unsigned char>(byte)));

  // Keys have the same order as the pairs.
  const auto key_of = [](std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint64_t>(right);
  };
  std::unordered_map<std::uint64_t, std::int64_t> times;
  const auto count = [&](const detail::Word& word, std::int64_t by) {
    for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) times[key_of(word.tokens[i], word.tokens[i + 1])] += by;
  };
  for (const detail::Word& word : words) count(word, word.times);
  while (pairs.tokens.size() < size) {
    std::uint64_t best = 0;
    std::int64_t most = 1;
    for (const auto& [key, number] : times) {
      if (number > most || (number == most && most > 1 && key < best)) {
        best = key;
        most = number;
      }
    }
    if (most < 2) break;
    const auto left = static_cast<std::int32_t>(best >> 32), right = static_cast<std::int32_t>(best & 0xffffffffU);
    const auto merged = static_cast<std::int32_t>(pairs.tokens.size());
    pairs.tokens.push_back(pairs.tokens[static_cast<std::size_t>(left)] +
                           pairs.tokens[static_cast<std::size_t>(right)]);
    pairs.merges.emplace_back(left, right);
    for (detail::Word& word : words) {
      std::vector<std::int32_t>& tokens = word.tokens;
      std::size_t first = 0;
      while (first + 1 < tokens.size() && !(tokens[first] == left && tokens[first + 1] == right)) ++first;
      if (first + 1 >= tokens.size()) continue;
      count(word, -word.times);
      std::size_t to = first;
      for (std::size_t from = first; from < tokens.size(); ++to) {
        const bool here = from + 1 < tokens.size() && tokens[from] == left && tokens[from + 1] == right;
        tokens[to] = here ? merged : tokens[from];
        from += here ? 2 : 1;
      }
      tokens.resize(to);
      count(word, word.times);
    }
  }
  return pairs;
}

} // namespace training
