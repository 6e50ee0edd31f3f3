// SPDX-License-Identifier: Apache-2.0
// Tokenizer: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstddef>
#include <string_view>

namespace sluice {

SLUICE_INLINE TokenStream::TokenStream(const Tokenizer& tokenizer, SkipSpecial skip)
    : tokenizer_(&tokenizer), skip_(skip), spaces_to_drop_(tokenizer.leading_spaces()) {}

SLUICE_INLINE std::string TokenStream::push(std::int32_t token) {
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

} // namespace sluice
