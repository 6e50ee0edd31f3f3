// SPDX-License-Identifier: Apache-2.0
// sluice-serve --tee: two systems that move and drop KV in different ways make the same tokens.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using sluice_test::asked;
using sluice_test::check_refused;
using sluice_test::Connection;
using sluice_test::needs_program;
using sluice_test::Response;
using sluice_test::ServerProcess;

/// Requests twenty answers at once and returns their number of tokens. `logprobs`: some requests ask for them.
std::int64_t ask_twenty(const ServerProcess& server, int longest, bool logprobs = true) {
  std::vector<Connection> clients;
  for (int i = 0; i < 20; ++i) {
    json body{{"prompt", std::string(static_cast<std::size_t>(20 + 7 * i), 'a')},
              {"max_tokens", longest - 5 * i},
              {"seed", i},
              {"temperature", 0.1 * i},
              {"ignore_eos", i % 2 == 0}};
    if (i % 5 == 0) body["n"] = 2;
    if (logprobs && i % 4 == 0) body["logprobs"] = 2;
    clients.push_back(asked(server.port(), "/v1/completions", body.dump()));
  }
  std::int64_t tokens = 0;
  for (Connection& client : clients) {
    const Response answer = client.response();
    REQUIRE(answer.status == 200);
    tokens += json::parse(answer.body)["usage"]["completion_tokens"].get<std::int64_t>();
  }
  return tokens;
}

/// Waits until the second engine has made all answers of `ask_twenty`, whose tokens are those of the first.
void check_no_difference(const ServerProcess& server, std::int64_t tokens) {
  CHECK(ServerProcess::eventually([&] { return server.metric("sluice:tee_generations_compared_total") == 24; }));
  CHECK(server.metric("sluice:tee_tokens_compared_total") == tokens);
  CHECK(server.metric("vllm:generation_tokens_total") == tokens);
  CHECK(server.metric("sluice:tee_tokens_differing_total") == 0);
  CHECK(server.metric("sluice:tee_generations_differing_total") == 0);
  CHECK(server.metric("sluice:tee_tokens_ahead") == 0);
  for (const char* reason : {"refused", "failed", "lag"})
    CHECK(server.metric("sluice:tee_left_out_total{model_name=\"tiny\",engine=\"0\",reason=\"" + std::string{reason} +
                        "\"}") == 0);
}

} // namespace

TEST_CASE("--tee: a second system under memory pressure makes the same tokens" * needs_program("sluice-serve")) {
  ServerProcess server({"--model", "tiny", "--system", "OrbitFlow", "--tee", "VllmRecompute", "--kv-memory", "2MiB",
                        "--context", "512", "--batch", "8"});
  check_no_difference(server, ask_twenty(server, 120));
  CHECK(server.metric("sluice:blocks_to_host_total") > 0); // memory was short

  // A client that leaves ends both engines' work; tokens compared before stay counted.
  {
    Connection leaves =
        asked(server.port(), "/v1/completions", R"({"prompt":"a","max_tokens":500,"ignore_eos":true,"stream":true})");
    CHECK(leaves.read_until("data: "));
  }
  CHECK(ServerProcess::eventually([&] { return server.metric("sluice:cancelled_total") == 1; }));
  CHECK(server.metric("sluice:tee_tokens_ahead") == 0);
  CHECK(server.metric("sluice:tee_generations_compared_total") == 24);
  CHECK(server.metric("sluice:tee_tokens_differing_total") == 0);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("--tee: Confluence makes AllResident's tokens, with SLOs" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny", "--system", "Confluence", "--tee", "AllResident", "--kv-memory",
                              "2MiB", "--context", "512", "--batch", "8", "--gate", "none", "--slo-ttft", "0.5",
                              "--slo-tbt", "0.005"});
  check_no_difference(server, ask_twenty(server, 120));
}

TEST_CASE("--tee with --simulate: drawn tokens are the same for the same seed" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "llama3-8b", "--simulate", "h100", "--system", "AllResident", "--tee",
                              "OrbitFlow", "--context", "512", "--batch", "24"});
  const std::int64_t tokens = ask_twenty(server, 110, false);
  CHECK(ServerProcess::eventually([&] { return server.metric("sluice:tee_generations_compared_total") == 24; }));
  CHECK(server.metric("sluice:tee_tokens_compared_total") == tokens);
  CHECK(server.metric("sluice:tee_tokens_differing_total") == 0);
}

TEST_CASE("--tee and --decisions: errors name the flag" * needs_program("sluice-serve")) {
  check_refused("sluice-serve", "--model tiny --port 0 --tee Nobody", "--tee: there is no system 'Nobody'");
  check_refused("sluice-serve", "--model tiny --port 0 --decisions /nowhere/log.txt",
                "--decisions: '/nowhere/log.txt': ");
}
