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

TEST_CASE("a vocabulary without roles has no chat format, and turns out of order are refused") {
  CHECK_FALSE(find_chat_format(ByteTokenizer{}).has_value());
  const auto refused = [](const std::vector<ChatMessage>& messages) {
    const auto chat = chat_text(ChatFormat::chatml, messages);
    return chat ? std::string{} : chat.error().line();
  };
  CHECK(refused({{"system", "s"}, {"user", "u"}, {"assistant", "a"}, {"user", "u"}}).empty());
  CHECK(refused({}) == "messages: there are none; expected at least one of a user");
  CHECK(refused({{"tool", "t"}}).rfind("message 1: its role is 'tool'", 0) == 0);
  CHECK(refused({{"user", "u"}, {"user", "u"}}).rfind("message 2: its role is 'user'", 0) == 0);
  CHECK(refused({{"user", "u"}, {"system", "s"}}).rfind("message 2: its role is 'system'", 0) == 0);
  CHECK(refused({{"system", "s"}}).rfind("message 1: the last one is not the user's", 0) == 0);
  CHECK(refused({{"user", "u"}, {"assistant", "a"}}).rfind("message 2: the last one", 0) == 0);
}

TEST_CASE("each format writes a conversation as its family does") {
  const std::vector<ChatMessage> messages{
      {"system", " Be brief. "}, {"user", "Hi\n"}, {"assistant", "Hello"}, {"user", "Bye"}};
  CHECK(*chat_text(ChatFormat::llama3, messages) ==
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK(*chat_text(ChatFormat::chatml, messages) ==
        "<|im_start|>system\n Be brief. <|im_end|>\n<|im_start|>user\nHi\n<|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
  CHECK(*chat_text(ChatFormat::llama2, messages) ==
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Bye [/INST]");
}

TEST_CASE("each format with tools spells calls and their results as its family does") {
  const std::vector<ChatMessage> messages{
      {"user", "Weather?"}, {"assistant", "", {{"weather", R"({"city": "Ulm"})"}}}, {"tool", "rain"}};
  CHECK(*chat_text(ChatFormat::llama3, messages) ==
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWeather?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n{\"name\": \"weather\", \"parameters\": {\"city\": "
        "\"Ulm\"}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\nrain<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK(*chat_text(ChatFormat::chatml, messages) ==
        "<|im_start|>user\nWeather?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{\"name\": \"weather\", "
        "\"arguments\": {\"city\": \"Ulm\"}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nrain\n"
        "</tool_response><|im_end|>\n<|im_start|>assistant\n");
  CHECK(chat_text(ChatFormat::llama2, messages).error().line() ==
        "message 2: this model's chat format has no tools; expected neither tool_calls nor the role tool");

  std::vector<ChatMessage> two = messages;
  two[1].calls.push_back({"time", "{}"});
  two.push_back({"tool", "noon"});
  const std::string text = *chat_text(ChatFormat::chatml, two);
  CHECK(text.find("</tool_call>\n<tool_call>") != std::string::npos);
  CHECK(text.find("user\n<tool_response>\nrain\n</tool_response>\n<tool_response>\nnoon\n</tool_response><|im_end|>") !=
        std::string::npos);
  CHECK(chat_text(ChatFormat::llama3, two).error().line().starts_with("message 2: this model's chat format has one"));

  std::vector<ChatMessage> unanswered = messages;
  unanswered.back() = {"user", "Well?"};
  CHECK(chat_text(ChatFormat::chatml, unanswered).error().line() ==
        "message 3: its role is 'user'; expected tool: the results of a call come next");
}
