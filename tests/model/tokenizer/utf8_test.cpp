// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/byte_pair_model.hpp"

#include "model/tokenizer/random_text.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <string>

using namespace sluice;

TEST_CASE("every character is read back as written, and each incomplete prefix of it is reported as cut") {
  for (char32_t code = 0; code <= 0x10FFFF; code += code < 0x3000 ? 1 : 251) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, code);
    REQUIRE(next_utf8(text + "x") == Utf8Step{Utf8Kind::whole, static_cast<int>(text.size()), code});
    for (std::size_t bytes = 1; bytes < text.size(); ++bytes)
      REQUIRE(next_utf8(text.substr(0, bytes)) == Utf8Step{Utf8Kind::cut, static_cast<int>(bytes), 0});
  }
}

TEST_CASE("malformed UTF-8 is reported as broken, with the number of bytes to replace") {
  const struct {
    std::string text;
    int bytes;
  } cases[]{{"\x80", 1},
            {"\xBF"
             "a",
             1},
            {"\xC0\xAF", 1},
            {"\xC1\xBF", 1},
            {"\xE0\x80\xAF", 1},
            {"\xE2\x82z", 2},
            {"\xED\xA0\x80", 1},
            {"\xF0\x8F\xBF\xBF", 1},
            {"\xF0\x9F\x98z", 3},
            {"\xF4\x90\x80\x80", 1},
            {"\xF5\x80\x80\x80", 1},
            {"\xFE", 1},
            {"\xFF", 1}};
  for (const auto& each : cases) {
    CAPTURE(each.text);
    CHECK(next_utf8(each.text) == Utf8Step{Utf8Kind::broken, each.bytes, 0});
  }
  // One U+FFFD replaces each broken or cut character.
  CHECK(replace_broken_utf8("a\xE2\x82z\xED\xA0\x80\xF0\x9F") ==
        "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("valid UTF-8 stays unchanged") {
  Random random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const std::string whole = sluice_test::random_characters(random, 30);
    CHECK(replace_broken_utf8(whole) == whole);
    const std::string mended = replace_broken_utf8(sluice_test::random_bytes(random, 30));
    CHECK(replace_broken_utf8(mended) == mended);
  }
}

TEST_CASE("each byte maps to its own character, and printable bytes map to themselves") {
  std::set<char32_t> seen;
  for (const char32_t character : byte_level_characters()) {
    CHECK(seen.insert(character).second);
    CHECK_FALSE(is_white_space(character));
    CHECK(character > 0x20);
  }
  CHECK(byte_level_name(" the\n") == "\xC4\xA0the\xC4\x8A"); // Ġ and Ċ
  CHECK(bytes_of_byte_level(" the") == std::nullopt);
  Random random(2);
  for (int trial = 0; trial < 200; ++trial) {
    const std::string text = sluice_test::random_bytes(random, 40);
    CHECK(bytes_of_byte_level(byte_level_name(text)) == text);
  }
}
