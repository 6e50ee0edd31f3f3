// SPDX-License-Identifier: Apache-2.0
// /metrics has exactly the clients' counts: for complete answers, clients that leave and refused requests.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace {

using nlohmann::json;
using sluice_test::asked;
using sluice_test::needs_program;
using sluice_test::Ran;
using sluice_test::Response;
using sluice_test::run_program;
using sluice_test::ServerProcess;
using sluice_test::TemporaryFolder;

/// sluice-load's figures.
json load(const ServerProcess& server, const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string file = (folder.path / "load.json").string();
  const Ran ran =
      run_program("sluice-load", "--quiet --url " + server.url() + " --json " + file + " " + arguments + " 2>&1");
  INFO(ran.out);
  REQUIRE(ran.code == 0);
  return json::parse(sluice_test::content(file));
}

/// Answers with this finish reason.
double ends(const ServerProcess& server, const std::string& reason) {
  return server.metric("vllm:request_success_total{model_name=\"tiny\",engine=\"0\",finished_reason=\"" + reason +
                       "\"}");
}
double answers_whole(const ServerProcess& server) { return ends(server, "stop") + ends(server, "length"); }

} // namespace

TEST_CASE("/metrics: requests, tokens and latencies of complete answers" * needs_program("sluice-load")) {
  const ServerProcess server({"--model", "tiny"});
  const json counted = load(server, "--generate even:rate=10000,requests=60,prompt=12,output=25 --temperature 1 "
                                    "--count-tokens --concurrency 20");
  const auto requests = counted["num_prompts"].get<std::int64_t>();
  const auto generated = counted["total_output_tokens"].get<std::int64_t>();
  CHECK(counted["completed"] == requests);
  CHECK(server.metric("sluice:requests_total") == requests);
  CHECK(server.metric("vllm:prompt_tokens_total") == counted["total_input_tokens"]);
  CHECK(server.metric("vllm:generation_tokens_total") == generated);
  CHECK(server.metric("sluice:tokens_released_total") == generated);
  CHECK(answers_whole(server) == requests);
  CHECK(server.metric("vllm:time_to_first_token_seconds_count") == requests);
  CHECK(server.metric("vllm:inter_token_latency_seconds_count") == generated - requests);
  CHECK(server.metric("vllm:e2e_request_latency_seconds_count") == requests);
  CHECK(server.metric("vllm:num_preemptions_total") >= 0);
  CHECK(ends(server, "abort") == 0);
  CHECK(ends(server, "error") == 0);
  CHECK(server.metric("sluice:refused_total") == 0);
  CHECK(server.metric("sluice:ended_total") == requests);
  CHECK(server.metric("sluice:cancelled_total") == 0);
}

TEST_CASE("/metrics: several answers to a request, and stop strings" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny"});
  const json plain{{"prompt", {"one", "two"}}, {"n", 2}, {"max_tokens", 40}, {"temperature", 1}, {"seed", 5}};
  const Response first = asked(server.port(), "/v1/completions", plain.dump()).response();
  REQUIRE(first.status == 200);
  json stopped = plain;
  const auto text = json::parse(first.body)["choices"][0]["text"].get<std::string>();
  std::string stop; // a letter of the first answer, which then ends there
  for (const char c : text)
    if (c > ' ' && c < 0x7f) stop = c;
  REQUIRE(!stop.empty());
  stopped["stop"] = json::array({stop});
  const Response second = asked(server.port(), "/v1/completions", stopped.dump()).response();
  REQUIRE(second.status == 200);
  CHECK(json::parse(second.body)["choices"][0]["finish_reason"] == "stop");
  std::int64_t prompts = 0, generated = 0, stops = 0;
  for (const json& body : {json::parse(first.body), json::parse(second.body)}) {
    prompts += body["usage"]["prompt_tokens"].get<std::int64_t>();
    generated += body["usage"]["completion_tokens"].get<std::int64_t>();
    for (const json& choice : body["choices"]) stops += choice["finish_reason"] == "stop" ? 1 : 0;
  }
  CHECK(server.metric("sluice:requests_total") == 2);
  CHECK(server.metric("vllm:prompt_tokens_total") == prompts);
  CHECK(server.metric("vllm:generation_tokens_total") == generated);
  CHECK(ends(server, "stop") == stops);
  CHECK(answers_whole(server) == 8);
  CHECK(server.metric("vllm:time_to_first_token_seconds_count") == 8);
  CHECK(server.metric("vllm:inter_token_latency_seconds_count") == generated - 8);
  CHECK(server.metric("vllm:e2e_request_latency_seconds_count") == 8);
}

TEST_CASE("/metrics: clients that leave, and requests that are refused" * needs_program("sluice-load")) {
  const ServerProcess server({"--model", "tiny", "--queue", "6", "--batch", "2"});
  const json counted =
      load(server, "--generate even:rate=10000,requests=80,prompt=12,output=200 --temperature 1 --leave 0.5");
  const auto left = counted["left_waiting"].get<std::int64_t>() + counted["left_prefill"].get<std::int64_t>() +
                    counted["left_decode"].get<std::int64_t>();
  const auto refused = counted["errors"].value("429", std::int64_t{0});
  const auto completed = counted["completed"].get<std::int64_t>();
  REQUIRE(left + refused + completed == 80);
  CHECK(left > 0);
  CHECK(refused > 0);
  CHECK(ServerProcess::eventually([&] { return server.metric("vllm:num_requests_running") == 0; }));
  CHECK(ServerProcess::eventually([&] { return server.metric("sluice:requests_total") == 80; }));
  // A client that leaves while it waits may leave before it learns of its refusal.
  const double told = server.metric("sluice:refused_total"), abort = ends(server, "abort");
  CHECK(told >= refused);
  CHECK(told + abort == refused + left);
  CHECK(answers_whole(server) == completed);
  // All have the same prompt; refused requests do not count.
  CHECK(server.metric("vllm:prompt_tokens_total") == 12 * (80 - told));
  CHECK(server.metric("sluice:ended_total") == completed);
  CHECK(server.metric("vllm:generation_tokens_total") >= counted["total_output_tokens"].get<double>());
  CHECK(server.metric("vllm:generation_tokens_total") == server.metric("vllm:time_to_first_token_seconds_count") +
                                                             server.metric("vllm:inter_token_latency_seconds_count"));
}
