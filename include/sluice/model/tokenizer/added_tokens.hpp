// SPDX-License-Identifier: Apache-2.0
// AddedTokens: finds tokens that are spelled out in a text, before any other step.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/utf8.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
  void add(AddedToken token) {
    SLUICE_ASSERT(!token.spelling.empty(), "an added token that is spelled");
    std::vector<AddedToken>& same = by_first_[static_cast<unsigned char>(token.spelling.front())];
    const auto longer = [&](const AddedToken& other) { return other.spelling.size() >= token.spelling.size(); };
    same.insert(std::find_if_not(same.begin(), same.end(), longer), std::move(token));
    ++count_;
  }

  [[nodiscard]] bool empty() const { return count_ == 0; }

  /// The parts of `text` in order, none of them empty. Of two tokens that begin at one place the longer wins; of two
  /// that overlap, the first. White space that a token takes belongs to its part.
  [[nodiscard]] std::vector<TextPart> split(std::string_view text) const {
    std::vector<TextPart> parts;
    std::size_t begin = 0; // of the text that is in no part yet
    for (std::size_t at = 0; count_ > 0 && at < text.size();) {
      const AddedToken* found = find(text.substr(at));
      if (found == nullptr) {
        ++at;
        continue;
      }
      const std::size_t end = at + found->spelling.size();
      const std::size_t from = found->takes_spaces_before ? begin_of_spaces(text, begin, at) : at;
      const std::size_t to = found->takes_spaces_after ? end_of_spaces(text, end) : end;
      if (begin < from) parts.push_back({std::nullopt, begin, from});
      parts.push_back({found->id, from, to});
      begin = at = to;
    }
    if (begin < text.size()) parts.push_back({std::nullopt, begin, text.size()});
    return parts;
  }

 private:
  [[nodiscard]] const AddedToken* find(std::string_view text) const {
    for (const AddedToken& token : by_first_[static_cast<unsigned char>(text.front())])
      if (text.substr(0, token.spelling.size()) == token.spelling) return &token;
    return nullptr;
  }

  static std::size_t end_of_spaces(std::string_view text, std::size_t at) {
    while (at < text.size()) {
      const Utf8Step step = next_utf8(text.substr(at));
      if (step.kind != Utf8Kind::whole || !is_white_space(step.code)) break;
      at += static_cast<std::size_t>(step.bytes);
    }
    return at;
  }

  /// Where the white space that ends at `end` begins, but not before `least`.
  static std::size_t begin_of_spaces(std::string_view text, std::size_t least, std::size_t end) {
    for (;;) {
      std::size_t before = end;
      for (std::size_t bytes = 1; bytes <= 3 && least + bytes <= end; ++bytes) {
        const Utf8Step step = next_utf8(text.substr(end - bytes, bytes));
        if (step.kind == Utf8Kind::whole && static_cast<std::size_t>(step.bytes) == bytes && is_white_space(step.code))
          before = end - bytes;
      }
      if (before == end) return end;
      end = before;
    }
  }

  /// By first byte, the longest first. (A vocabulary has at most some hundred added tokens, with few different first
  /// bytes.)
  std::array<std::vector<AddedToken>, 256> by_first_;
  std::size_t count_ = 0;
};

} // namespace sluice
