// SPDX-License-Identifier: Apache-2.0
// Every family's encoding and decoding against tests/reference/make_tokenizer_goldens.py.
#include "sluice/core/utf8.hpp"
#include "sluice/model/tokenizer/icu/nlohmann/tokenizer_json.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"

#include "model/tokenizer/icu/reference_folder.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace sluice;
using namespace sluice::testing;
using nlohmann::json;

TEST_CASE("each family encodes and decodes difficult texts as the reference does") {
  const json goldens = parsed("goldens.json");
  const auto texts = goldens["texts"].get<std::vector<std::string>>();
  REQUIRE(texts.size() >= 20);
  std::size_t compared = 0;
  for (const json& golden : goldens["goldens"]) {
    const auto name = golden["file"].get<std::string>();
    json file = parsed(name);
    file.merge_patch(golden["patch"]);
    CAPTURE(name);
    const std::string patch = golden["patch"].dump();
    CAPTURE(patch);
    const auto tokenizer = tokenizer_from_text(file.dump(), name);
    if (!tokenizer) FAIL(tokenizer.error().line());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const json& ids = golden["ids"][i];
      if (ids.is_null()) continue;
      CAPTURE(i);
      const auto tokens = (*tokenizer)->encode(texts[i]);
      if (!tokens) FAIL(tokens.error().line());
      CHECK(*tokens == ids.get<std::vector<std::int32_t>>());
      const auto& decoded = golden["decoded"];
      const std::string expected =
          decoded.contains(std::to_string(i)) ? decoded[std::to_string(i)].get<std::string>() : texts[i];
      CHECK((*tokenizer)->decode(*tokens, SkipSpecial::yes) == expected);
      TokenStream stream(**tokenizer);
      std::string streamed;
      for (const std::int32_t token : *tokens) {
        const std::string part = stream.push(token);
        CHECK(replace_broken_utf8(part) == part); // no piece ends within a character
        streamed += part;
      }
      CHECK(streamed + stream.finish() == expected);
      ++compared;
    }
  }
  CHECK(compared >= 150);
}
