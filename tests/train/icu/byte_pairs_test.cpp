// SPDX-License-Identifier: Apache-2.0
// The trained vocabulary, checked with the tokenizer that reads it.
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_json.hpp"

#include "../../../examples/train/byte_pairs.hpp"
#include "../../../examples/train/model_folder.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace training;

namespace {

const std::vector<std::string> texts{"the thin thing that the other thinks, then the thirteenth",
                                     "this and that, there"};

} // namespace

TEST_CASE("the most frequent pair is merged first, and merges stay within words") {
  const sluice::Expected<BytePairs> pairs = learn_byte_pairs(texts, 300);
  REQUIRE(pairs);
  REQUIRE(pairs->tokens.size() > 258);
  CHECK(pairs->tokens[256] == "th"); // 11 times; " t" is rarer
  for (std::size_t i = 256; i < pairs->tokens.size(); ++i) {
    CAPTURE(pairs->tokens[i]);
    CHECK(pairs->tokens[i].find(' ', 1) == std::string::npos);
    const auto [left, right] = pairs->merges[i - 256];
    CHECK(pairs->tokens[i] ==
          pairs->tokens[static_cast<std::size_t>(left)] + pairs->tokens[static_cast<std::size_t>(right)]);
  }
  CHECK(learn_byte_pairs(texts, 300)->tokens == pairs->tokens);
  CHECK(learn_byte_pairs({"a b c"}, 300)->tokens.size() == 256); // no pair occurs twice
}

TEST_CASE(
    "the folder's tokenizer decodes every text it encodes, knows ChatML, and encodes its training text in few tokens") {
  const sluice_test::TemporaryFolder temporary;
  const std::string folder = temporary.path.string();
  const sluice::Expected<BytePairs> pairs = learn_byte_pairs(texts, 290);
  REQUIRE(pairs);
  REQUIRE(write_tokenizer(folder, *pairs, 64).ok());
  const sluice::Expected<std::unique_ptr<sluice::Tokenizer>> tokenizer = sluice::read_tokenizer(folder);
  if (!tokenizer) FAIL(tokenizer.error().line());
  CHECK(sluice::find_chat_format(**tokenizer) == sluice::ChatFormat::chatml);
  CHECK((*tokenizer)->id_of("<|im_end|>") == static_cast<std::int32_t>(pairs->tokens.size()) + 2);
  CHECK((*tokenizer)->encode("the")->size() == 1);
  for (const std::string& text : texts) CHECK((*tokenizer)->decode(*(*tokenizer)->encode(text)) == text);
  const std::string nasty = "caf\xC3\xA9 \xF0\x9F\x98\x80\n\t \xFF\x00 thethe";
  CHECK((*tokenizer)->decode(*(*tokenizer)->encode(nasty)) == nasty);
}
