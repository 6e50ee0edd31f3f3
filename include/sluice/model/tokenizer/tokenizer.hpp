// SPDX-License-Identifier: Apache-2.0
// Tokenizer: text to tokens and back. TokenStream: the way back token by token.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/model/tokenizer/vocabulary.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Whether to add the tokens that the file's template puts around a text (usually a begin token).
enum class AddSpecial : bool { no, yes };
/// Whether to omit special tokens (begin, end, chat roles) from a decoded text.
enum class SkipSpecial : bool { no, yes };

/// What a tokenizer knows besides how to encode.
struct TokenizerTraits {
  std::int32_t begin_token = -1;        ///< negative: none
  std::vector<std::int32_t> end_tokens; ///< any of them ends an answer
  std::string chat_template{};          ///< the folder's, as Jinja; empty: none (model/tokenizer/chat.hpp)
  int leading_spaces = 0;               ///< decoding drops at most this many: the prefix that encoding added
};

/// Text to tokens and back. Safe to use from several threads at once.
///
/// An abstract class and not a concept: one virtual call per prompt, and a file decides at run time which kind it is.
class Tokenizer {
 public:
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  /// The tokens of `text`, which need not be UTF-8: a byte that belongs to no character is encoded as itself. Added
  /// tokens that are spelled out are recognised, as in Hugging Face's tokenizers. Errors: a text longer than
  /// `longest_text`, or one for which the file's pattern needs too much time or memory.
  [[nodiscard]] virtual Expected<std::vector<std::int32_t>> encode(std::string_view text,
                                                                   AddSpecial add = AddSpecial::yes) const = 0;

  /// The exact bytes of `tokens`, which may begin or end within a character: `replace_broken_utf8` makes them
  /// printable, and `TokenStream` splits them between characters. Numbers that are no token yield nothing.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens, SkipSpecial skip = SkipSpecial::no) const {
    std::string text;
    for (const std::int32_t token : tokens)
      if (skip == SkipSpecial::no || !vocabulary_.is_special(token)) text += vocabulary_.text_of(token);
    std::size_t drop = 0;
    while (drop < text.size() && drop < static_cast<std::size_t>(traits_.leading_spaces) && text[drop] == ' ') ++drop;
    return text.erase(0, drop);
  }

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The number of the token with this name ("<|eot_id|>").
  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view name) const { return vocabulary_.id_of(name); }
  [[nodiscard]] std::int32_t begin_token() const { return traits_.begin_token; }
  [[nodiscard]] const std::vector<std::int32_t>& end_tokens() const { return traits_.end_tokens; }
  [[nodiscard]] const std::string& chat_template() const { return traits_.chat_template; }
  [[nodiscard]] int leading_spaces() const { return traits_.leading_spaces; }

  static constexpr std::size_t longest_text = std::size_t{64} << 20; ///< bytes

 protected:
  Tokenizer(Vocabulary vocabulary, TokenizerTraits traits)
      : vocabulary_(std::move(vocabulary)), traits_(std::move(traits)) {}

  [[nodiscard]] static Status check_length(std::string_view text) {
    if (text.size() <= longest_text) return {};
    return Error{ErrorCode::bad_input, "text", "it has " + std::to_string(text.size()) + " bytes",
                 "at most " + std::to_string(longest_text)};
  }

 private:
  Vocabulary vocabulary_;
  TokenizerTraits traits_;
};

// TokenStream: decodes tokens one by one, and returns a character only when all its bytes have come.

/// The text of one answer. The results of `push`, and finally of `finish`, concatenate to `decode` of all tokens. No
/// result ends within a character, so `replace_broken_utf8` of the results equals that of the whole.
///
/// A SentencePiece tokenizer drops the space before the first word. If the answer continues a text, push the prompt's
/// tokens first and ignore the results.
class TokenStream {
 public:
  /// Refers to `tokenizer`, which must outlive this.
  explicit TokenStream(const Tokenizer& tokenizer, SkipSpecial skip = SkipSpecial::yes);

  /// The text that is complete with `token`; often empty.
  [[nodiscard]] std::string push(std::int32_t token);

  /// The bytes of a character that never became complete.
  [[nodiscard]] std::string finish() { return std::exchange(pending_, {}); }

 private:
  const Tokenizer* tokenizer_;
  SkipSpecial skip_;
  int spaces_to_drop_;
  std::string pending_; ///< at most three bytes, all of one character
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/model/tokenizer/tokenizer.inl.hpp"
#endif
