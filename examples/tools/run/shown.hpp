// SPDX-License-Identifier: Apache-2.0
// ShownText: prints generated text as it arrives, one request after another.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace running {

/// The text after `prompt`. A SentencePiece tokenizer must know the prompt to keep the continuation's leading space.
inline sluice::TokenStream continuation(const sluice::Tokenizer& tokenizer, std::span<const std::int32_t> prompt) {
  sluice::TokenStream stream(tokenizer);
  for (const std::int32_t token : prompt) (void)stream.push(token);
  return stream;
}

/// Prints the first unfinished request as it arrives; later ones wait, and their text so far is printed when it is
/// their turn. Several requests at once on one screen would be unreadable.
class ShownText {
 public:
  /// `tokenizer` null: tokens are printed as numbers.
  ShownText(std::size_t requests, const sluice::Tokenizer* tokenizer, std::FILE* to)
      : tokenizer_(tokenizer), to_(to), each_(requests) {}

  /// Starts a request with its prompt, which the answer continues.
  void begins(std::size_t request, std::span<const std::int32_t> prompt) {
    if (tokenizer_ == nullptr) return;
    each_[request].stream = std::make_unique<sluice::TokenStream>(continuation(*tokenizer_, prompt));
  }
  void token(std::size_t request, std::int32_t token) {
    One& one = each_[request];
    if (tokenizer_ == nullptr)
      one.waiting += (one.any ? "," : "") + std::to_string(token);
    else
      one.waiting += printable(one.stream->push(token));
    one.any = true;
    if (request == turn_) show(one);
  }
  void ended(std::size_t request, std::string_view remark = {}) {
    One& one = each_[request];
    if (one.stream != nullptr) one.waiting += printable(one.stream->finish());
    if (!remark.empty()) one.waiting.append("(").append(sluice::without_controls(remark)).append(")");
    one.ended = true;
    while (turn_ < each_.size()) {
      show(each_[turn_]);
      if (!each_[turn_].ended) return;
      std::fputc('\n', to_);
      ++turn_;
    }
    std::fflush(to_);
  }

 private:
  struct One {
    std::unique_ptr<sluice::TokenStream> stream;
    std::string waiting;
    bool named = false, any = false, ended = false;
  };

  void show(One& one) {
    if (each_.size() > 1 && !one.named) std::fprintf(to_, "%zu: ", turn_);
    one.named = true;
    std::fwrite(one.waiting.data(), 1, one.waiting.size(), to_);
    std::fflush(to_);
    one.waiting.clear();
  }
  /// A model may generate anything, including terminal commands.
  static std::string printable(std::string_view text) {
    return sluice::without_controls(sluice::replace_broken_utf8(text), "\n\t");
  }

  const sluice::Tokenizer* tokenizer_;
  std::FILE* to_;
  std::vector<One> each_;
  std::size_t turn_ = 0;
};

} // namespace running
