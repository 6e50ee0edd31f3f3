// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/tokenizer/bytes.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include "model/tokenizer/random_text.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace sluice;

TEST_CASE("the byte tokenizer's tokens are the bytes, after a begin token") {
  const ByteTokenizer tokenizer;
  CHECK(tokenizer.vocabulary().size() == ByteTokenizer::tokens);
  const auto tokens = tokenizer.encode("a\xFF\n");
  REQUIRE(tokens);
  CHECK(*tokens == std::vector<std::int32_t>{256, 97, 255, 10});
  CHECK(tokenizer.begin_token() == 256);
  CHECK(tokenizer.end_tokens() == std::vector<std::int32_t>{257});
  CHECK(tokenizer.id_of("<0x0A>") == 10);
  Random random(6);
  for (int trial = 0; trial < 200; ++trial) {
    const std::string text = sluice_test::random_bytes(random, 50);
    const auto ids = tokenizer.encode(text);
    REQUIRE(ids);
    CHECK(tokenizer.decode(*ids, SkipSpecial::yes) == text);
  }
}

TEST_CASE("a stream's pieces are whole characters, and together give the whole text") {
  const ByteTokenizer tokenizer;
  Random random(7);
  for (int trial = 0; trial < 500; ++trial) {
    const std::string text =
        trial % 2 == 0 ? sluice_test::random_bytes(random, 40) : sluice_test::random_characters(random, 20);
    const auto tokens = tokenizer.encode(text);
    REQUIRE(tokens);
    TokenStream stream(tokenizer);
    std::string whole, mended;
    for (const std::int32_t token : *tokens) {
      const std::string piece = stream.push(token);
      whole += piece;
      mended += replace_broken_utf8(piece);
    }
    const std::string rest = stream.finish();
    CHECK(rest.size() <= 3);
    CHECK(whole + rest == text);
    CHECK(mended + replace_broken_utf8(rest) == replace_broken_utf8(text));
  }
}

TEST_CASE("numbers that are no token decode to nothing, and special tokens decode if requested") {
  const ByteTokenizer tokenizer;
  const std::vector<std::int32_t> tokens{256, 'h', -1, 'i', 1 << 30, 258, 257};
  CHECK(tokenizer.decode(tokens, SkipSpecial::yes) == "hi");
  CHECK(tokenizer.decode(tokens, SkipSpecial::no) == "<begin>hi<end>");
}

TEST_CASE("a vocabulary refuses numbers and names that repeat or are out of range") {
  Vocabulary vocabulary;
  CHECK(vocabulary.add(3, "a", "A", false).ok());
  CHECK(vocabulary.add(3, "b", "B", false).error().line() ==
        "token 'b' has the number 3, as another has; expected each number once");
  CHECK(vocabulary.add(4, "a", "A", false).error().what == "token 'a' is there twice");
  CHECK_FALSE(vocabulary.add(-1, "c", "C", false).ok());
  CHECK_FALSE(vocabulary.add(most_tokens, "c", "C", false).ok());
  CHECK_FALSE(vocabulary.add(std::int64_t{1} << 31, "c", "C", false).ok());
  CHECK(vocabulary.count() == 1);
  CHECK(vocabulary.size() == 4);
  CHECK_FALSE(vocabulary.has(2));
  CHECK(vocabulary.text_of(2).empty());
}
