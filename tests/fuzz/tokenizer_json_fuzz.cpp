// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json is refused in one line, or encodes and decodes: its own text, as bytes that need not be text.
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_json.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include "fuzz/fuzz_support.hpp"

#include <string>

SLUICE_FUZZ_TARGET(tokenizer_json) {
  const std::string text = sluice_test::text_of(data, size);
  const auto tokenizer = sluice::tokenizer_from_text(text, "tokenizer.json");
  if (!tokenizer) {
    sluice_test::require_one_line(tokenizer.error());
    return 0;
  }
  const auto tokens = (*tokenizer)->encode(std::string_view(text).substr(0, 200));
  if (!tokens) {
    sluice_test::require_one_line(tokens.error());
    return 0;
  }
  sluice::TokenStream stream(**tokenizer, sluice::SkipSpecial::no);
  std::string streamed;
  for (const std::int32_t token : *tokens) {
    sluice_test::require((*tokenizer)->vocabulary().has(token), "only tokens of the vocabulary");
    streamed += stream.push(token);
  }
  sluice_test::require(streamed + stream.finish() == (*tokenizer)->decode(*tokens), "a stream decodes the same");
  return 0;
}
