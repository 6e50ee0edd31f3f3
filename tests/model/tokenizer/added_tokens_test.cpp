// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/tokenizer/vocabulary.hpp"

#include "model/tokenizer/random_text.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

using namespace sluice;

namespace {

constexpr std::optional<std::int32_t> text = std::nullopt;

} // namespace

TEST_CASE("the longest token at a place is found, and the first of two that overlap") {
  AddedTokens tokens;
  tokens.add({"<a>", 1, false, false});
  tokens.add({"<a><b>", 2, false, false});
  tokens.add({"b><c", 3, false, false});
  CHECK(tokens.split("") == std::vector<TextPart>{});
  CHECK(tokens.split("<a") == std::vector<TextPart>{{text, 0, 2}});
  CHECK(tokens.split("<a><b><c>") == std::vector<TextPart>{{2, 0, 6}, {text, 6, 9}});
  CHECK(tokens.split("x<a><a>") == std::vector<TextPart>{{text, 0, 1}, {1, 1, 4}, {1, 4, 7}});
  CHECK(tokens.split("<b><c>") == std::vector<TextPart>{{text, 0, 1}, {3, 1, 5}, {text, 5, 6}});
}

TEST_CASE("tokens take the configured white space, of any kind, once") {
  AddedTokens tokens;
  tokens.add({"<l>", 1, true, false});
  tokens.add({"<r>", 2, false, true});
  CHECK(tokens.split("a \t<l> b") == std::vector<TextPart>{{text, 0, 1}, {1, 1, 6}, {text, 6, 8}});
  CHECK(tokens.split("a <r>\n\xE3\x80\x80 b") == std::vector<TextPart>{{text, 0, 2}, {2, 2, 10}, {text, 10, 11}});
  CHECK(tokens.split("<r>  <l>") == std::vector<TextPart>{{2, 0, 5}, {1, 5, 8}});
  CHECK(tokens.split("\xA0<l>") == std::vector<TextPart>{{text, 0, 1}, {1, 1, 4}}); // a byte that is no character
}

TEST_CASE("parts cover a text in order and without gaps") {
  AddedTokens tokens;
  tokens.add({"a", 1, true, false});
  tokens.add({"ab", 2, false, true});
  tokens.add({"0 ", 3, true, true});
  Random random(3);
  std::size_t found = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const std::string whole = sluice_test::random_characters(random, 40);
    std::size_t at = 0;
    for (const TextPart& part : tokens.split(whole)) {
      REQUIRE(part.begin == at);
      REQUIRE(part.end > part.begin);
      at = part.end;
      found += part.token ? 1U : 0U;
    }
    CHECK(at == whole.size());
  }
  CHECK(found > 100);
}
