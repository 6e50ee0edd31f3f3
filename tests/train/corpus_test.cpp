// SPDX-License-Identifier: Apache-2.0
// The trainer's input: paragraphs, speech, conversations, windows.
#include "../../examples/train/corpus.hpp"
#include "../../examples/train/windows.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

using namespace training;

TEST_CASE("paragraphs are joined to one line each, without italics, titles and returns") {
  const std::vector<std::string> paragraphs =
      split_paragraphs("CHAPTER I\r\n\r\n\r\nIt is a _truth_ universally\r\nacknowledged,  that a\r\n  man\r\n\r\n"
                       "must be in want of a good wife, at last.\n");
  CHECK(paragraphs == std::vector<std::string>{"It is a truth universally acknowledged, that a man",
                                               "must be in want of a good wife, at last."});
}

TEST_CASE("speech is the text between quotation marks, if the paragraph starts with it") {
  CHECK(speech_of("\"My dear,\" said she, \"have you heard?\" And she smiled.") == "My dear, have you heard?");
  CHECK(speech_of("\"I have not; and it goes on") ==
        "I have not; and it goes on"); // the next paragraph continues the speech
  CHECK(speech_of("He said, \"No.\"").empty());
  CHECK(speech_of("").empty());
}

TEST_CASE("neighbouring speeches are turns, and a conversation ends with an answer") {
  std::vector<Conversation> conversations;
  find_conversations({"\"Is he married or single?\"", "\"Oh, single, my dear.\"", "\"A fine thing for our girls.\"",
                      "She was silent.", "\"How so? How can it affect them?\"", "He went on."},
                     conversations);
  CHECK(conversations == std::vector<Conversation>{{"Is he married or single?", "Oh, single, my dear."}});
}

TEST_CASE("held-out text is in no paragraph and no conversation for training") {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "\"This is speech number " + std::to_string(i) + " of two thousand.\"\n\n";
  const Corpus corpus = make_corpus(text);
  CHECK(corpus.paragraphs.size() + corpus.held_out.size() == 2000);
  CHECK(corpus.held_out.size() == 48); // 16 of every 512, thrice
  std::set<std::string> held;
  for (const std::string& paragraph : corpus.held_out) held.insert(speech_of(paragraph));
  for (const std::string& paragraph : corpus.paragraphs) CHECK(held.count(speech_of(paragraph)) == 0);
  for (const Conversation& conversation : corpus.conversations) {
    CHECK(conversation.size() % 2 == 0);
    for (const std::string& turn : conversation) CHECK(held.count(turn) == 0);
  }
}

TEST_CASE("windows cover each epoch's tokens once, at other places and in another order every time, and depend only on "
          "the seed") {
  std::vector<std::uint16_t> tokens(1000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i);
  Windows windows(tokens, 30, 7), same(tokens, 30, 7), other(tokens, 30, 8);
  std::vector<std::size_t> begins;
  bool differs = false;
  for (int i = 0; i < 32; ++i) { // 32 or 33 are an epoch
    const std::span<const std::uint16_t> window = windows.next();
    CHECK(window.size() == 31);
    CHECK(window.data() == same.next().data());
    differs = differs || window.data() != other.next().data();
    begins.push_back(window.front());
  }
  CHECK(differs);
  CHECK_FALSE(std::is_sorted(begins.begin(), begins.end()));
  std::sort(begins.begin(), begins.end());
  for (std::size_t i = 1; i < begins.size(); ++i) CHECK((begins[i] - begins[i - 1]) % 30 == 0);
  CHECK(std::adjacent_find(begins.begin(), begins.end()) == begins.end());
}
