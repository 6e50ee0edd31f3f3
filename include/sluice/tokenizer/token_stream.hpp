// SPDX-License-Identifier: Apache-2.0
// TokenStream: decodes tokens as they come, a character only when all its bytes are there.
#pragma once

#include "sluice/tokenizer/tokenizer.hpp"
#include "sluice/tokenizer/utf8.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// The text of one answer. What `push` and at last `finish` return, one after another, is what `decode` returns of all
/// the tokens; and no piece ends within a character, so that `replace_broken_utf8` of the pieces is that of the whole.
///
/// A tokenizer of SentencePiece's kind drops the space before the first word. Where the answer continues a text, push
/// the prompt's tokens first and ignore what comes.
class TokenStream {
 public:
  /// Refers to `tokenizer`, which must outlive this.
  explicit TokenStream(const Tokenizer& tokenizer, SkipSpecial skip = SkipSpecial::yes)
      : tokenizer_(&tokenizer), skip_(skip), spaces_to_drop_(tokenizer.leading_spaces()) {}

  /// The text that is complete with `token`; often empty.
  [[nodiscard]] std::string push(std::int32_t token) {
    if (skip_ == SkipSpecial::yes && tokenizer_->vocabulary().is_special(token)) return {};
    std::string_view bytes = tokenizer_->vocabulary().text_of(token);
    for (; spaces_to_drop_ > 0 && !bytes.empty(); --spaces_to_drop_) {
      if (bytes.front() == ' ') {
        bytes.remove_prefix(1);
      } else {
        spaces_to_drop_ = 1; // the first that is none ends it
      }
    }
    pending_ += bytes;
    std::size_t complete = 0;
    while (complete < pending_.size()) {
      const Utf8Step step = next_utf8(std::string_view(pending_).substr(complete));
      if (step.kind == Utf8Kind::cut) break;
      complete += static_cast<std::size_t>(step.bytes);
    }
    std::string text = pending_.substr(0, complete);
    pending_.erase(0, complete);
    return text;
  }

  /// The beginning of a character that never became whole.
  [[nodiscard]] std::string finish() { return std::exchange(pending_, {}); }

 private:
  const Tokenizer* tokenizer_;
  SkipSpecial skip_;
  int spaces_to_drop_;
  std::string pending_; ///< at most three bytes, all of one character
};

} // namespace sluice
