// SPDX-License-Identifier: Apache-2.0
#include "sluice/model/decoder/sampler.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace sluice;

namespace {

/// Logits 2, -2, 1, -1, 0 after the prompt 0 1 and the answer 2 2 3.
std::vector<float> ruled(const LogitRules& rules, std::vector<std::int32_t> tokens = {0, 1, 2, 2, 3}) {
  std::vector<float> logits{2, -2, 1, -1, 0};
  apply_rules(rules, tokens, 2, logits);
  return logits;
}

} // namespace

TEST_CASE("apply_rules penalises as OpenAI's and vLLM's documents say") {
  LogitRules rules;
  CHECK(rules.empty());
  CHECK(ruled(rules) == std::vector<float>{2, -2, 1, -1, 0});
  rules.presence = 0.5; // once for each token of the answer
  CHECK(!rules.empty());
  CHECK(ruled(rules) == std::vector<float>{2, -2, 0.5, -1.5, 0});
  rules = {};
  rules.frequency = 0.5; // for each time
  CHECK(ruled(rules) == std::vector<float>{2, -2, 0, -1.5, 0});
  rules = {};
  rules.repetition = 2; // the prompt's tokens too; never in a token's favour
  CHECK(ruled(rules) == std::vector<float>{1, -4, 0.5, -2, 0});
  rules = {};
  rules.bias = {{4, 3}, {0, -100}, {77, 5}}; // a token that is none of the model's changes nothing
  CHECK(ruled(rules) == std::vector<float>{-98, -2, 1, -1, 3});
  rules.repetition = 2; // after the bias
  CHECK(ruled(rules, {4, 1}) == std::vector<float>{-98, -4, 1, -1, 1.5});
}

TEST_CASE("apply_rules forbids the ends of bad words where they would end, and end tokens until min_tokens") {
  LogitRules rules;
  rules.bad_words = {{4}, {2, 3, 0}, {3, 2, 1}, {1, 2, 2, 3, 2}};
  std::vector<float> logits = ruled(rules);
  CHECK(std::isinf(logits[4]));
  CHECK(std::isinf(logits[0]));
  CHECK(logits[1] == -2); // 3 2 does not end the answer
  CHECK(logits[2] == 1);  // 1 is the prompt's
  rules = {};
  rules.min_tokens = 4;
  rules.ends = {1, 4};
  logits = ruled(rules);
  CHECK(std::isinf(logits[1]));
  CHECK(std::isinf(logits[4]));
  CHECK(logits[0] == 2);
  rules.min_tokens = 3; // the answer has three
  CHECK(ruled(rules) == std::vector<float>{2, -2, 1, -1, 0});
}
