// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/core/text.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

using namespace sluice;

namespace {

std::string random_word(Random& random) {
  std::string word(random.below(9), ' ');
  for (char& letter : word) letter = static_cast<char>('a' + random.below(3));
  return word;
}

/// One letter inserted, removed, replaced, or swapped with the next.
std::string edited(std::string word, Random& random) {
  const std::size_t at = random.below(word.size() + 1);
  const char letter = static_cast<char>('a' + random.below(3));
  const std::uint64_t how = random.below(4);
  if (how == 0 || word.empty()) return word.insert(at, 1, letter);
  const std::size_t within = std::min(at, word.size() - 1);
  if (how == 1) return word.erase(within, 1);
  if (how == 2) word[within] = letter;
  if (how == 3 && within + 1 < word.size()) std::swap(word[within], word[within + 1]);
  return word;
}

} // namespace

TEST_CASE("the distance of names is 0 to itself, at most 1 after one edit, and symmetric") {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::string a = random_word(random), b = random_word(random);
    CAPTURE(a);
    CAPTURE(b);
    CHECK(name_distance(a, a) == 0);
    CHECK((name_distance(a, b) == 0) == (a == b));
    CHECK(name_distance(a, b) == name_distance(b, a));
    CHECK(name_distance(a, edited(a, random)) <= 1);
    CHECK(name_distance(a, b) <= std::max(a.size(), b.size()));
    const std::size_t longer = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
    CHECK(name_distance(a, b) >= longer);
  }
  CHECK(name_distance("OrbitFlow", "orbitflow") == 0);
}

TEST_CASE("a misspelt name gives the intended name, an unrelated word gives nothing") {
  constexpr std::array<std::string_view, 4> flags{"--kv-blocks", "--kv-memory", "--batch", "--model"};
  CHECK(did_you_mean("--kvblocks", flags) == " (did you mean --kv-blocks?)");
  CHECK(did_you_mean("--kv_blocks", flags) == " (did you mean --kv-blocks?)");
  CHECK(did_you_mean("--modle", flags) == " (did you mean --model?)");
  CHECK(did_you_mean("--frobnicate", flags).empty());
  const std::vector<std::string_view> models{"llama2-7b", "llama3-8b", "opt-13b"};
  CHECK(did_you_mean("llama3-8B ", models) == " (did you mean llama3-8b?)");
  CHECK(did_you_mean("opt", models) == " (did you mean opt-13b?)"); // a beginning of a name
  const std::vector<std::string_view> systems{"Ellm", "VllmRecompute", "VllmSwap"};
  CHECK(did_you_mean("Vllm", systems) == " (did you mean VllmSwap?)"); // one letter from Ellm
  CHECK(did_you_mean("vlmSwap", systems) == " (did you mean VllmSwap?)");
  CHECK(did_you_mean("", models).empty());
  CHECK(did_you_mean("x", std::vector<std::string_view>{}).empty());
}
