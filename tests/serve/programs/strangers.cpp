// SPDX-License-Identifier: Apache-2.0
// What clients without a key cost sluice-serve, and what they cannot take from those who watch it.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using sluice_test::check_refused;
using sluice_test::Connection;
using sluice_test::get;
using sluice_test::needs_program;
using sluice_test::post;
using sluice_test::Response;
using sluice_test::ServerProcess;

/// Resident memory in KiB.
long resident(const ServerProcess& server) {
  std::ifstream file("/proc/" + std::to_string(server.process()) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("VmRSS:", 0) == 0) return std::atol(line.c_str() + 6);
  return -1;
}
/// Raises this process' limit of open files as far as it may; whether that is `wanted`. If not, the case is skipped.
bool allow_files(rlim_t wanted) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return false;
  files.rlim_cur = files.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= wanted) return true;
  std::printf("SKIPPED: many connections at once (ulimit -Hn is below %ld)\n", static_cast<long>(wanted));
  return false;
}

} // namespace

TEST_CASE("a thousand half-sent bodies without a key take less than 64 MiB" * needs_program("sluice-serve")) {
  if (!allow_files(1100)) return;
  const ServerProcess server({"--model", "tiny", "--api-key", "secret"});
  const long idle = resident(server);
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           "Content-Length: 8000000\r\n\r\n";
  const std::string half(200'000, 'x');
  std::vector<Connection> strangers;
  long most = 0;
  for (int i = 0; i < 1000; ++i) {
    Connection& one = strangers.emplace_back(server.port());
    REQUIRE(one.open());
    one.send(head);
    one.send(half); // the server may have closed
    if (i % 50 != 49) continue;
    CHECK(server.metric("sluice:body_bytes") == 0);
    most = std::max(most, resident(server));
  }
  MESSAGE(idle << " KiB idle, at most " << most << " with a thousand half-sent bodies");
  CHECK(most - idle < 64 << 10);
  for (Connection& one : strangers) CHECK(one.response().status == 401);
}

TEST_CASE("4,096 silent connections leave /health, /ready and /metrics to others" * needs_program("sluice-serve")) {
  if (!allow_files(4300)) return;
  const ServerProcess server({"--model", "tiny"});
  std::vector<Connection> silent;
  for (int i = 0; i < 4200; ++i) {
    silent.emplace_back(server.port());
    REQUIRE(silent.back().open());
  }
  CHECK(get(server.port(), "/health") == "ok\n");
  CHECK(get(server.port(), "/ready") == "ready\n");
  CHECK(server.metric("sluice:connections") >= 0);
}

TEST_CASE("sluice-serve refuses limits that cannot be kept, in one line" * needs_program("sluice-serve")) {
  const std::string tiny = "--model tiny --port 0 ";
  check_refused("sluice-serve", tiny + "--max-body 2MiB --max-bodies 1MiB",
                "--max-bodies: 1048576 bytes hold no body of --max-body; expected at least 2097152");
  check_refused("sluice-serve", tiny + "--max-connections 2000",
                "--max-connections: 2000 need more files than the 1000 that this process may open; expected at most ",
                "ulimit -n 1000; ");
}

TEST_CASE("HUP reads the keys again, and a mistake in the file changes nothing" * needs_program("sluice-serve")) {
  const sluice_test::TemporaryFolder folder;
  const std::string file = (folder.path / "keys").string();
  std::ofstream(file) << "# keys\nalice: old requests/min=1000\n";
  ServerProcess server({"--model", "tiny", "--api-key-file", file});
  const auto status = [&](const std::string& key) {
    Connection connection(server.port());
    connection.send(post("/tokenize", R"({"prompt":"a"})", "Authorization: Bearer " + key + "\r\n"));
    return connection.response();
  };
  const Response first = status("old");
  CHECK(first.status == 200);
  CHECK(first.head.find("x-ratelimit-limit-requests: 1000\r\n") != std::string::npos);
  CHECK(status("#").status == 401); // a comment is no key
  CHECK(status("keys").status == 401);
  std::ofstream(file) << "bob: new\n";
  server.signal(SIGHUP);
  CHECK(ServerProcess::eventually([&] { return status("new").status == 200; }));
  CHECK(status("old").status == 401);
  std::ofstream(file) << "bob: newer what\n";
  server.signal(SIGHUP);
  server.signal(SIGHUP);
  CHECK(status("new").status == 200);
  std::ofstream(file) << "bob: newest\n";
  server.signal(SIGHUP);
  CHECK(ServerProcess::eventually([&] { return status("newest").status == 200; }));
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("a key's limits: refusals are counted once, and a page of --cors may read what is left" *
          needs_program("sluice-serve")) {
  const sluice_test::TemporaryFolder folder;
  const std::string file = (folder.path / "keys").string();
  std::ofstream(file) << "alice: few requests/min=1\nbob: other tokens/min=1\n";
  const ServerProcess server({"--model", "tiny", "--api-key-file", file, "--cors", "*"});
  const auto ask = [&](const std::string& key) {
    Connection connection(server.port());
    connection.send(post("/v1/completions", R"({"prompt":"aa","max_tokens":300,"ignore_eos":true})",
                         "Authorization: Bearer " + key + "\r\n"));
    return connection.response();
  };
  CHECK(ask("wrong").status == 401);
  for (const std::string key : {"few", "other"}) {
    CHECK(ask(key).status == 200);
    Response refused = ask(key);                      // a debt of 300 tokens lasts for hours
    while (refused.status == 200) refused = ask(key); // a minute may have passed between two requests
    CHECK(refused.status == 429);
    CHECK(refused.head.find("Access-Control-Expose-Headers: ") != std::string::npos);
    CHECK(refused.head.find(" x-ratelimit-reset-tokens") != std::string::npos);
  }
  const std::string figures = get(server.port(), "/metrics");
  for (const char* limit : {"requests", "tokens"}) {
    INFO(std::string{limit});
    const std::size_t at = figures.find("limit=\"" + std::string{limit} + "\"} ");
    REQUIRE(at != std::string::npos);
    CHECK(figures.compare(figures.find("} ", at), 4, "} 1\n") == 0);
  }
}

TEST_CASE("sluice-serve refuses a key file with a mistake, and says where" * needs_program("sluice-serve")) {
  const sluice_test::TemporaryFolder folder;
  const std::string file = (folder.path / "keys").string();
  std::ofstream(file) << "# one\nalice: secret requests/hour=3\n";
  check_refused("sluice-serve", "--model tiny --port 0 --api-key-file '" + file + "'",
                "--api-key-file: '" + file + "', line 2: a word behind the key is no limit; expected ");
}

TEST_CASE("--admin moves metrics, the live page and the drain to a port of their own" * needs_program("sluice-serve")) {
  ServerProcess server({"--model", "llama3-8b", "--simulate", "h100", "--context", "100000", "--api-key", "secret",
                        "--admin", "0", "--drain", "1000"});
  REQUIRE(server.admin_port() > 0);
  const auto answer = [](int port, const std::string& request) {
    Connection connection(port);
    connection.send(request + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return connection.response();
  };
  for (const char* path : {"GET /metrics", "GET /live", "GET /live/state", "GET /whatif", "POST /drain"}) {
    INFO(std::string{path});
    CHECK(answer(server.port(), path).status == 404);
  }
  for (const char* path : {"GET /metrics", "GET /live", "GET /live/state", "GET /health", "GET /ready", "GET /ping"}) {
    INFO(std::string{path});
    CHECK(answer(server.admin_port(), path).status == 200);
  }
  CHECK(answer(server.port(), "GET /health").status == 200);
  CHECK(answer(server.admin_port(), "GET /v1/models").status == 404);
  CHECK(answer(server.admin_port(), "GET /drain").status == 405);
  Connection page(server.admin_port());
  page.send("POST /drain HTTP/1.1\r\nHost: x\r\nOrigin: http://elsewhere\r\n\r\n");
  CHECK(page.response().status == 403);
  Connection body(server.admin_port());
  body.send(post("/drain", "{}"));
  CHECK(body.response().status == 413);
  CHECK(answer(server.admin_port(), "GET /ready").status == 200);

  // A request under way keeps the drain going: the admin port still answers, and says so.
  Connection stream(server.port());
  stream.send(post("/v1/completions", R"({"prompt":"a","max_tokens":90000,"stream":true})",
                   "Authorization: Bearer secret\r\n"));
  REQUIRE(stream.read_until("data: "));
  CHECK(answer(server.admin_port(), "POST /drain").status == 202);
  CHECK(answer(server.admin_port(), "GET /ready").status == 503);
  CHECK(answer(server.admin_port(), "GET /metrics").status == 200);
  stream.close();
  CHECK(server.wait() == 0);
}

TEST_CASE("sluice-serve refuses an --admin that is no port, in one line" * needs_program("sluice-serve")) {
  for (const char* admin : {"70000", "x", "127.0.0.1:", ":80", "-1"})
    check_refused("sluice-serve", "--model tiny --port 0 --admin=" + std::string{admin},
                  "--admin: it is '" + std::string{admin} + "'; expected PORT, or HOST:PORT");
}
