// SPDX-License-Identifier: Apache-2.0
// The requests by which lm-eval's `local-completions` measures and continues texts, and its reading of the answers.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using sluice_test::asked;
using sluice_test::needs_program;
using sluice_test::Response;
using sluice_test::ServerProcess;
using Ids = std::vector<int>;

json answer(const ServerProcess& server, const json& request, const char* path = "/v1/completions") {
  const Response response = asked(server.port(), path, request.dump()).response();
  INFO(request.dump(), " ", response.body);
  REQUIRE(response.status == 200);
  return json::parse(response.body);
}
Ids tokens_of(const ServerProcess& server, const std::string& text, bool special = true) {
  return answer(server, {{"prompt", text}, {"add_special_tokens", special}}, "/tokenize")["tokens"];
}

/// All fields that lm-eval sends for log-likelihoods. `prompt`: texts or lists of tokens.
json likelihood_request(const json& prompt) {
  return {{"model", "tiny"}, {"prompt", prompt}, {"temperature", 0}, {"max_tokens", 1},
          {"logprobs", 1},   {"seed", 1234},     {"echo", true}};
}

struct Likelihood {
  double sum = 0;
  bool greedy = true; ///< whether the model's likeliest tokens are this text
};
/// The largest of the likeliest tokens and the chosen one.
double most_of(const json& top) {
  double most = top.front().get<double>();
  for (const json& one : top) most = std::max(most, one.get<double>());
  return most;
}
/// Reads an answer as lm-eval does: without the context, and without the last token, which `max_tokens` made.
Likelihood likelihood_of(const json& choice, std::size_t context) {
  const json &tokens = choice["logprobs"]["token_logprobs"], &top = choice["logprobs"]["top_logprobs"];
  REQUIRE(tokens.size() == top.size());
  Likelihood likelihood;
  for (std::size_t at = context; at + 1 < tokens.size(); ++at) {
    likelihood.sum += tokens[at].get<double>();
    likelihood.greedy = likelihood.greedy && tokens[at].get<double>() == most_of(top[at]);
  }
  return likelihood;
}

/// The same, computed without `echo`: each token is forced by a bias, and log-probabilities know no bias.
Likelihood generated(const ServerProcess& server, Ids prompt, const Ids& continuation) {
  Likelihood likelihood;
  for (const int token : continuation) {
    const json bias{{std::to_string(token), 100}};
    const json got = answer(server, {{"prompt", prompt}, {"max_tokens", 1}, {"logprobs", 1}, {"logit_bias", bias}});
    const json& logprobs = got["choices"][0]["logprobs"];
    likelihood.sum += logprobs["token_logprobs"][0].get<double>();
    likelihood.greedy =
        likelihood.greedy && most_of(logprobs["top_logprobs"][0]) == logprobs["token_logprobs"][0].get<double>();
    prompt.push_back(token);
  }
  return likelihood;
}

} // namespace

TEST_CASE("lm-eval: likelihoods of a batch of token prompts are those of the same tokens when generated" *
          needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny"});
  const Ids hello = tokens_of(server, "hello");
  const json greedy = answer(server, {{"prompt", hello}, {"temperature", 0}, {"max_tokens", 3}, {"ignore_eos", true}});
  const Ids likeliest = tokens_of(server, greedy["choices"][0]["text"], false);
  REQUIRE(likeliest.size() == 3); // ASCII, so its tokens are known
  struct Text {
    Ids context, continuation;
  };
  const std::vector<Text> texts{
      {hello, likeliest}, {hello, {3, 250, 131}}, {{200}, {7}}, {{9, 9, 9, 9, 9, 9, 9, 9, 9}, {5, 6}}};
  json batch = json::array();
  for (const Text& text : texts) {
    Ids whole = text.context;
    whole.insert(whole.end(), text.continuation.begin(), text.continuation.end());
    batch.push_back(whole);
  }
  const json scored = answer(server, likelihood_request(batch));
  REQUIRE(scored["choices"].size() == texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    INFO(i);
    const json& choice = scored["choices"][i];
    CHECK(choice["index"] == i);
    CHECK(choice["logprobs"]["token_logprobs"].size() == batch[i].size() + 1);
    const Likelihood echoed = likelihood_of(choice, texts[i].context.size());
    const Likelihood reference = generated(server, texts[i].context, texts[i].continuation);
    CHECK(echoed.sum == doctest::Approx(reference.sum).epsilon(1e-9));
    CHECK(echoed.greedy == reference.greedy);
    CHECK(echoed.greedy == (i == 0));

    json alone = likelihood_request(json::array({batch[i]}));
    CHECK(answer(server, alone)["choices"][0]["logprobs"] == choice["logprobs"]);
    alone["max_tokens"] = 0; // what newer versions ask for: the prompt alone
    const json none = answer(server, alone)["choices"][0]["logprobs"];
    CHECK(none["token_logprobs"].size() == batch[i].size());
    for (std::size_t at = 0; at < batch[i].size(); ++at)
      CHECK(none["token_logprobs"][at] == choice["logprobs"]["token_logprobs"][at]);
  }
  CHECK(server.metric("vllm:kv_cache_usage_perc") == 0);
}

TEST_CASE("lm-eval: texts instead of tokens, and its requests to continue" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny"});
  const std::vector<std::string> texts{"The sea is", "A house"};
  const json scored = answer(server, likelihood_request(texts));
  json ids = json::array();
  for (const std::string& text : texts) ids.push_back(tokens_of(server, text));
  const json by_tokens = answer(server, likelihood_request(ids));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CHECK(scored["choices"][i]["logprobs"]["token_logprobs"] == by_tokens["choices"][i]["logprobs"]["token_logprobs"]);
    CHECK(scored["choices"][i]["text"].get<std::string>().starts_with(texts[i]));
  }
  // generate_until
  const json continued = answer(server, {{"prompt", ids},
                                         {"model", "tiny"},
                                         {"max_tokens", 5},
                                         {"temperature", 0},
                                         {"stop", {"\n\n", "<|endoftext|>"}},
                                         {"seed", 1234}});
  CHECK(continued["choices"].size() == 2);
  for (const json& choice : continued["choices"]) CHECK(choice["text"].is_string());
}
