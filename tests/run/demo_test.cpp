// SPDX-License-Identifier: Apache-2.0
// The demo model generates words, and its answers end.
#include "sluice/core/utf8.hpp"

#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;

/// A model folder's texts need a build with ICU. (This calls std::system and not `run_program`, which works only within
/// a test: decorators of tests run before doctest starts.)
doctest::skip needs_demo() {
  const std::string program = sluice_test::program_path("sluice-run").string();
  std::error_code ignored;
  if (!std::filesystem::exists(program, ignored)) return sluice_test::needs_program("sluice-run");
  const std::string call = "'" + program + "' --model demo --prompt a --max-tokens 1 2>&1 | grep -q 'needs ICU'";
  if (std::system(call.c_str()) != 0) return doctest::skip(false); // the tests report any other error
  std::fprintf(stderr, "skipped: a test needs a sluice-run with ICU\n");
  return doctest::skip(true);
}

Json generated(const std::string& arguments) {
  const sluice_test::Ran ran = sluice_test::run_program("sluice-run", "--model demo --json " + arguments);
  INFO(arguments);
  REQUIRE(ran.code == 0);
  const Json json = Json::parse(ran.out, nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  return json;
}

/// Runs of letters, in lower case.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (std::isalpha(code) != 0)
      words.back() += static_cast<char>(std::tolower(code));
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// The share of words that are among English's most frequent: about 0.4 in any prose, and nearly 0 for a random model.
double share_of_common_words(const std::string& text) {
  static const std::set<std::string> common{"the", "to",  "of",  "and",  "a",    "her", "i",    "was",  "in",   "it",
                                            "she", "not", "be",  "that", "he",   "had", "you",  "as",   "for",  "with",
                                            "is",  "his", "but", "have", "at",   "all", "him",  "my",   "so",   "on",
                                            "no",  "by",  "me",  "they", "very", "do",  "were", "this", "been", "will"};
  const std::vector<std::string> words = words_of(text);
  const auto known =
      std::count_if(words.begin(), words.end(), [](const std::string& word) { return common.count(word) > 0; });
  return words.empty() ? 0 : static_cast<double>(known) / static_cast<double>(words.size());
}

} // namespace

TEST_CASE("the demo model continues a text in English words, at any temperature" * needs_demo()) {
  for (const char* how : {"", " --temperature 0.8 --top-p 0.95 --seed 1", " --temperature 1 --seed 2"}) {
    const Json json =
        generated("--prompt 'She had always wished to' --prompt 'The next morning,' --max-tokens 80 --ignore-end" +
                  std::string{how});
    for (const Json& request : json["requests"]) {
      const std::string text = request["text"];
      CAPTURE(how);
      CAPTURE(text);
      CHECK(sluice::replace_broken_utf8(text) == text);
      CHECK(words_of(text).size() >= 30);
      CHECK(share_of_common_words(text) > 0.2);
    }
  }
}

TEST_CASE("the demo model answers a message, and ends its answer" * needs_demo()) {
  int ended = 0;
  for (int seed = 1; seed <= 4; ++seed) {
    const Json json = generated("--chat --prompt 'Do you know Mr. Darcy?' --prompt 'I am very happy to see you.' "
                                "--max-tokens 200 --temperature 0.8 --top-p 0.95 --seed " +
                                std::to_string(seed));
    for (const Json& request : json["requests"]) {
      const std::string text = request["text"];
      CAPTURE(text);
      CHECK_FALSE(words_of(text).empty());
      CHECK(text.find("<|") == std::string::npos);
      if (request["tokens"].size() < 200) ++ended;
    }
  }
  CHECK(ended >= 6);
}

TEST_CASE("the demo model generates the same text whatever moves" * needs_demo()) {
  const std::string prompts = "--prompt 'It is a truth' --prompt 'Emma could not' --max-tokens 40 ";
  const Json expected = generated(prompts)["requests"];
  for (const char* system : {"VllmSwap", "OrbitFlow", "SuperInfer", "Confluence"}) {
    const Json requests = generated(prompts + "--kv-memory 256KiB --system " + system)["requests"];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(system);
      CHECK(requests[i]["tokens"] == expected[i]["tokens"]);
    }
  }
}
