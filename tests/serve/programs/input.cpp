// SPDX-License-Identifier: Apache-2.0
// sluice-serve refuses invalid requests with a status and one sentence, and serves the next request.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

namespace {

using sluice_test::Connection;
using sluice_test::needs_program;
using sluice_test::post;
using sluice_test::Response;
using sluice_test::ServerProcess;

constexpr const char* key = "Authorization: Bearer secret\r\n";

std::string ask(std::string_view body) { return post("/v1/completions", body, key); }
std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

struct Refused {
  const char* what;
  std::string request;
  int status;
  bool goes_on = true; ///< the same connection serves the next request, because the body was read
};

std::vector<Refused> table() {
  const std::string good = R"({"prompt":"a","max_tokens":2)";
  const std::string length = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ";
  return {
      {"no JSON", ask("prompt=a"), 400},
      {"no body", ask(""), 400},
      {"JSON that ends too early", ask(R"({"prompt": "a)"), 400},
      {"two JSON objects", ask("{}{}"), 400},
      {"an array", ask("[]"), 400},
      {"a field twice", ask(R"({"prompt":"a","prompt":"b"})"), 400},
      {"invalid UTF-8", ask("{\"prompt\":\"\xff\xfe\"}"), 400},
      {"half a character", ask("{\"prompt\":\"\xf0\x9f\x98\"}"), 400},
      {"half a surrogate pair", ask(R"({"prompt":"\ud83d"})"), 400},
      {"a zero byte", ask(std::string_view("{\"prompt\":\"a\0\"}", 14)), 400},
      {"depth 10,000", ask(R"({"prompt":)" + repeated("[", 10'000) + repeated("]", 10'000) + "}"), 400},
      {"depth 10,000 in a field that is ignored",
       ask(good + R"(,"x":)" + repeated(R"({"a":)", 10'000) + "1" + repeated("}", 10'000) + "}"), 400},
      {"depth 3,000,000 in a field that is read", ask(good + R"(,"stop":)" + repeated("[", 3'000'000)), 400},
      {"the same, closed", ask(good + R"(,"stop":)" + repeated("[", 3'000'000) + repeated("]", 3'000'000) + "}"), 400},
      {"a number beyond doubles", ask(good + R"(,"temperature":1e999})"), 400},
      {"a number of 100,000 digits", ask(R"({"prompt":"a","max_tokens":)" + repeated("9", 100'000) + "}"), 400},
      {"the largest whole number", ask(R"({"prompt":"a","max_tokens":18446744073709551615})"), 400},
      {"the largest that would overflow with the prompt", ask(R"({"prompt":"a","max_tokens":9223372036854775807})"),
       400},
      {"a negative max_tokens", ask(R"({"prompt":"a","max_tokens":-1})"), 400},
      {"half a token", ask(R"({"prompt":"a","max_tokens":1.5})"), 400},
      {"an unknown token", ask(R"({"prompt":[1000000]})"), 400},
      {"a negative token", ask(R"({"prompt":[-1]})"), 400},
      {"a context too long", ask(R"({"prompt":"a","max_tokens":1000000})"), 400},
      {"a prompt that alone is too long", ask(R"({"prompt":")" + repeated("word ", 2'000) + "\"}"), 400},
      {"a prompt of megabytes", ask(R"({"prompt":")" + repeated("word ", 1'000'000) + "\"}"), 400},
      {"thousands of prompts", ask(R"({"prompt":[)" + repeated("\"a\",", 20'000) + R"("a"],"n":128})"), 400},
      {"prompts times n", ask(R"({"prompt":[)" + repeated("\"a\",", 500) + R"("a"],"n":128})"), 400},
      {"a field that is not built", ask(good + R"(,"best_of":3})"), 400},
      {"another type of body",
       "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n" +
           std::string{key} + "\r\n{}",
       400},
      {"a form",
       "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n" +
           std::string{"Content-Length: 2\r\n"} + key + "\r\n{}",
       400},
      {"a page's body without a type",
       "POST /v1/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://elsewhere\r\n" +
           std::string{"Content-Length: 2\r\n"} + key + "\r\n{}",
       400},
      {"another model", ask(R"({"prompt":"a","model":"gpt-4"})"), 404},
      {"an unknown path", "GET /v1/nothing HTTP/1.1\r\nHost: x\r\n" + std::string{key} + "\r\n", 404},
      {"a path of control characters", "GET /%00%0a HTTP/1.1\r\nHost: x\r\n\r\n", 404},
      {"GET where POST is", "GET /v1/completions HTTP/1.1\r\nHost: x\r\n" + std::string{key} + "\r\n", 405},
      {"DELETE", "DELETE /v1/models HTTP/1.1\r\nHost: x\r\n" + std::string{key} + "\r\n", 405},
      {"POST where GET is", post("/health", "{}"), 405},
      {"no key", post("/v1/completions", good + "}"), 401, false},
      {"a wrong key", post("/v1/completions", good + "}", "Authorization: Bearer secreT\r\n"), 401, false},
      {"a key and more", post("/v1/completions", good + "}", "Authorization: Bearer secretsecret\r\n"), 401, false},
      {"an empty key", post("/v1/completions", good + "}", "Authorization: Bearer \r\n"), 401, false},
      {"another scheme", post("/v1/completions", good + "}", "Authorization: Basic secret\r\n"), 401, false},
      {"10 MB", ask(R"({"prompt":")" + repeated("0123456789", 1'000'000) + "\"}"), 413, false},
      {"10 MB in chunks",
       "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + std::string{key} + "\r\n" +
           repeated("10000\r\n" + std::string(1 << 16, 'x') + "\r\n", 160) + "0\r\n\r\n",
       413, false},
      {"a Content-Length of 10 MB", length + "10000000\r\n\r\n{", 413, false},
      {"a length beyond all numbers", length + "99999999999999999999999\r\n\r\n{", 400, false},
      {"a negative length", length + "-1\r\n\r\n{", 400, false},
      {"two lengths", length + "1\r\nContent-Length: 2\r\n\r\n{}", 400, false},
      {"no HTTP", "\x16\x03\x01\x02 hello\r\n\r\n", 400, false},
      {"a head of 20 KB", "GET /health HTTP/1.1\r\nHost: x\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", 431, false},
      {"a chunk without a length",
       "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + std::string{key} + "\r\nzz\r\n",
       400, false}};
}

/// One sentence in OpenAI's form.
void check_refusal(const Response& response) {
  const auto body = nlohmann::json::parse(response.body, nullptr, false);
  REQUIRE(body.is_object());
  CHECK(body.size() == 1);
  const nlohmann::json& error = body["error"];
  for (const char* name : {"message", "type", "param", "code"}) CHECK(error.contains(name));
  const std::string message = error["message"];
  CHECK(!message.empty());
  CHECK(message.size() < 300);
  CHECK(message.find('\n') == std::string::npos);
  CHECK(response.head.find("Content-Type: application/json\r\n") != std::string::npos);
}

void check_served(Connection& connection) {
  connection.send(ask(R"({"prompt":"a","max_tokens":2,"ignore_eos":true})"));
  const Response served = connection.response();
  CHECK(served.status == 200);
  CHECK(nlohmann::json::parse(served.body, nullptr, false)["usage"]["completion_tokens"] == 2);
}

} // namespace

TEST_CASE("a server refuses invalid requests in one sentence and serves the next request" *
          needs_program("sluice-serve")) {
  const sluice_test::TemporaryFolder folder;
  const std::string keys = (folder.path / "keys").string();
  std::ofstream(keys) << "secret \t\r\n \r\n"; // with the line endings of another system's editor
  const ServerProcess server({"--model", "tiny", "--api-key-file", keys});
  for (const Refused& refused : table()) {
    INFO(refused.what);
    Connection connection(server.port());
    REQUIRE(connection.open());
    connection.send(refused.request);
    const Response response = connection.response();
    INFO(response.body);
    CHECK(response.status == refused.status);
    if (response.status == 0) continue;
    check_refusal(response);
    if (refused.status == 405) CHECK(response.head.find("\r\nAllow: ") != std::string::npos);
    if (refused.goes_on) {
      check_served(connection);
    } else {
      CHECK(response.head.find("Connection: close\r\n") != std::string::npos);
      CHECK(connection.ended());
      Connection next(server.port());
      check_served(next);
    }
  }
  CHECK(server.metric("vllm:kv_cache_usage_perc") == 0);
}

TEST_CASE("--lenient lets unknown fields pass; neither those of the API that are not supported, nor one of an SLO" *
          needs_program("sluice-serve")) {
  const ServerProcess strict({"--model", "tiny"}), lenient({"--model", "tiny", "--lenient"});
  const auto status = [](const ServerProcess& server, const std::string& field) {
    Connection connection(server.port());
    connection.send(post("/v1/completions", R"({"prompt":"a","max_tokens":2,)" + field + "}"));
    return connection.response().status;
  };
  CHECK(status(strict, R"("tempreture":0)") == 400);
  CHECK(status(lenient, R"("tempreture":0)") == 200);
  for (const char* field : {R"("guided_regex":"a")", R"("structured_outputs":{"regex":"a"})", R"("slo":{"ttft":1})"})
    for (const ServerProcess* server : {&strict, &lenient}) CHECK(status(*server, field) == 400);
}

TEST_CASE("a server listens only on 127.0.0.1 by default" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny"});
  const std::uint32_t other = INADDR_LOOPBACK + 1; // 127.0.0.2: also this machine
  CHECK(Connection(server.port()).open());
  CHECK_FALSE(Connection(server.port(), other).open());
}
