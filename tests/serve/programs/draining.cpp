// SPDX-License-Identifier: Apache-2.0
// TERM: no new requests; those under way end completely, within a time limit.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <thread>

namespace {

using sluice_test::Connection;
using sluice_test::needs_program;
using sluice_test::post;
using sluice_test::Ran;
using sluice_test::run_program;
using sluice_test::ServerProcess;
using sluice_test::TemporaryFolder;

constexpr const char* endless = R"({"prompt":"a","max_tokens":4000,"stream":true})";

/// A stream whose first event has arrived.
Connection streaming(const ServerProcess& server) {
  Connection connection(server.port());
  connection.send(post("/v1/completions", endless));
  CHECK(connection.read_until("data: "));
  return connection;
}

} // namespace

TEST_CASE("TERM during 200 streams: no new ones, all 200 end completely, exit 0" * needs_program("sluice-serve")) {
  ServerProcess server({"--model", "llama3-8b", "--simulate", "h100", "--batch", "200", "--max-batch-tokens", "1024",
                        "--drain", "600", "--drain-delay", "0"});
  Connection idle(server.port());
  idle.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(idle.response().status == 200);
  const TemporaryFolder folder;
  const std::string file = (folder.path / "load.json").string();
  Ran ran;
  std::thread client([&] {
    ran = run_program("sluice-load", "--quiet --url " + server.url() + " --json " + file +
                                         " --generate even:rate=10000,requests=200,prompt=16,output=150 2>&1");
  });
  CHECK(ServerProcess::eventually([&] { return server.metric("sluice:requests_total") == 200; }));
  CHECK(server.metric("vllm:request_success_total") == 0); // none has ended
  server.signal(SIGTERM);
  CHECK(idle.ended());
  CHECK(ServerProcess::eventually([&] { return !Connection(server.port()).open(); }));
  CHECK(server.wait() == 0);
  client.join();
  INFO(ran.out);
  CHECK(ran.code == 0);
  const auto report = nlohmann::json::parse(sluice_test::content(file), nullptr, false);
  REQUIRE(report.is_object());
  CHECK(report["completed"] == 200);
  CHECK(report["total_output_tokens"] == 200 * 150);
  for (const auto& violation : report["violations"].items()) {
    INFO(violation.key());
    CHECK(violation.value() == 0);
  }
}

TEST_CASE("a drain has a time limit, and a second TERM aborts it" * needs_program("sluice-serve")) {
  for (const bool again : {false, true}) {
    INFO(again);
    ServerProcess server(
        {"--model", "llama3-8b", "--simulate", "h100", "--drain", again ? "600" : "0.3", "--drain-delay", "0"});
    Connection connection = streaming(server);
    server.signal(SIGTERM);
    CHECK(ServerProcess::eventually([&] { return !Connection(server.port()).open(); }));
    if (again) server.signal(SIGTERM);
    const std::string read = connection.rest();
    CHECK(read.find("[DONE]") == std::string::npos); // without the limit the whole answer would come
    CHECK((read.find("data: {\"error\":{") != std::string::npos) == !again); // cut: it says so
    CHECK(server.wait() == (again ? 128 + SIGTERM : 0));
  }
}

TEST_CASE("TERM keeps the listener for --drain-delay: /ready and newcomers get 503, and /metrics answers" *
          needs_program("sluice-serve")) {
  ServerProcess server({"--model", "llama3-8b", "--simulate", "h100", "--drain", "600", "--drain-delay", "600"});
  Connection connection = streaming(server);
  server.signal(SIGTERM);
  const auto ask = [&](const std::string& bytes) {
    Connection client(server.port());
    client.send(bytes);
    return client.response();
  };
  const std::string ready = "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n";
  CHECK(ServerProcess::eventually([&] { return ask(ready).status == 503; }));
  for (const std::string& bytes : {ready, post("/v1/completions", endless)}) {
    const sluice_test::Response refused = ask(bytes);
    CHECK(refused.status == 503);
    CHECK(refused.head.find("Retry-After: ") != std::string::npos);
    CHECK(refused.head.find("Connection: close") != std::string::npos);
  }
  CHECK(server.metric("vllm:num_requests_running") == 1); // the stream goes on
  server.signal(SIGTERM);
  CHECK(server.wait() == 128 + SIGTERM);
}
