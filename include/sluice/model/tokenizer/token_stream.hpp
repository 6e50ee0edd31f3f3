// SPDX-License-Identifier: Apache-2.0
// TokenStream: decodes tokens one by one, and returns a character only when all its bytes have come.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

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

#ifndef SLUICE_MODEL_COMPILED
#include "sluice/model/tokenizer/token_stream.inl.hpp"
#endif
