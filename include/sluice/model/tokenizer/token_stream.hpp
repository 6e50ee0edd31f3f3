// SPDX-License-Identifier: Apache-2.0
// TokenStream: decodes tokens one by one, and returns a character only when all its bytes have come.
#pragma once

#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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
        spaces_to_drop_ = 1; // the first that is no space ends this
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

  /// The bytes of a character that never became complete.
  [[nodiscard]] std::string finish() { return std::exchange(pending_, {}); }

 private:
  const Tokenizer* tokenizer_;
  SkipSpecial skip_;
  int spaces_to_drop_;
  std::string pending_; ///< at most three bytes, all of one character
};

} // namespace sluice
