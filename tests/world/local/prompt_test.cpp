// SPDX-License-Identifier: Apache-2.0
#include "sluice/world/local/model.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace sluice;

TEST_CASE("a prompt is encoded by the model's tokenizer") {
  const LocalModel model = tiny_model();
  const Expected<std::vector<std::int32_t>> tokens = encode_prompt(model, "gate");
  REQUIRE(tokens);
  CHECK(*tokens == *model.tokenizer->encode("gate"));
}

TEST_CASE("another model's tokenizer is reported in one line, with the first token that the model lacks") {
  LocalModel model = tiny_model();
  model.weights.config.shape.vocabulary = 'g';
  const Expected<std::vector<std::int32_t>> tokens = encode_prompt(model, "bag");
  REQUIRE(!tokens);
  CHECK(tokens.error().code == ErrorCode::not_found);
  CHECK(tokens.error().line().find("the prompt: the tokenizer of tiny makes the token ") == 0);
  CHECK(tokens.error().expected == "a tokenizer that belongs to the model");
}

TEST_CASE("a user's message is encoded in the format that is asked for") {
  const LocalModel model = tiny_model();
  const Expected<std::vector<std::int32_t>> tokens = encode_chat(model, ChatFormat::mistral, "hello");
  REQUIRE(tokens);
  CHECK(model.tokenizer->decode(*tokens) == "<s>[INST] hello [/INST]");
}
