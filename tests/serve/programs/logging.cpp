// SPDX-License-Identifier: Apache-2.0
// The log: a line for each answer, and nobody waits for whoever reads it.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using sluice_test::Connection;
using sluice_test::needs_program;
using sluice_test::post;
using sluice_test::ServerProcess;

/// The reading end of a server's standard error.
class Errors {
 public:
  Errors() { REQUIRE(::pipe2(ends_, O_CLOEXEC) == 0); }
  ~Errors() {
    ::close(ends_[0]);
    started();
  }
  Errors(const Errors&) = delete;
  Errors& operator=(const Errors&) = delete;
  [[nodiscard]] int writer() const { return ends_[1]; }
  /// The server has its own: afterwards reading ends with the server.
  void started() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  /// Reads the next line, as JSON; null for a line that is none. False at the end.
  bool next(json& line) {
    std::size_t end = 0;
    while ((end = text_.find('\n')) == std::string::npos) {
      char buffer[1 << 14];
      const ssize_t bytes = ::read(ends_[0], buffer, sizeof buffer);
      if (bytes <= 0) return false;
      text_.append(buffer, static_cast<std::size_t>(bytes));
    }
    line = json::parse(text_.substr(0, end), nullptr, false);
    if (line.is_discarded()) line = nullptr;
    text_.erase(0, end + 1);
    return true;
  }

 private:
  int ends_[2];
  std::string text_;
};

} // namespace

TEST_CASE("a pipe that nobody reads: requests, /health and TERM go on, and the lines that are missing are counted" *
          needs_program("sluice-serve")) {
  Errors errors;
  ServerProcess server("sluice-serve", {"--model", "tiny", "--port", "0", "--max-body", "1KiB", "--drain-delay", "0"},
                       errors.writer());
  errors.started();
  const std::string path(180, 'p');
  std::int64_t asked = 0;
  const auto ask_until_dropped = [&](double dropped) {
    for (double now = 0; now < dropped; now = server.metric("sluice:log_lines_dropped_total")) {
      REQUIRE(now >= 0); // it has that metric
      Connection client(server.port());
      for (int i = 0; i < 200; ++i, ++asked) {
        REQUIRE(client.send("GET /" + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        REQUIRE(client.response().status == 404);
      }
    }
  };
  ask_until_dropped(100);
  CHECK(asked > 192);
  CHECK(sluice_test::asked(server.port(), "/v1/completions", R"({"prompt":"a","max_tokens":2})").response().status ==
        200);
  CHECK(sluice_test::get(server.port(), "/health") == "ok\n");
  std::int64_t lines = 0, missing = 0;
  json line;
  while (lines + missing < asked) { // somebody reads again; other answers are among the missing
    REQUIRE(errors.next(line));
    if (line.is_object() && line["event"] == "log_lines_dropped") missing += line["lines"].get<std::int64_t>();
    if (line.is_object() && line.value("status", 0) == 404) ++lines;
  }
  CHECK(lines > 0);
  CHECK(missing == server.metric("sluice:log_lines_dropped_total"));
  ask_until_dropped(static_cast<double>(missing) + 100);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("HUP reads the keys while nobody reads the log, and after its reader has gone" *
          needs_program("sluice-serve")) {
  const sluice_test::TemporaryFolder folder;
  const std::string file = (folder.path / "keys").string();
  const auto knows = [](const ServerProcess& server, const std::string& key) {
    Connection client(server.port());
    client.send("GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\n\r\n");
    return client.response().status == 200;
  };
  for (const bool leaves : {false, true}) {
    std::ofstream(file) << "first\n";
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    ServerProcess server("sluice-serve",
                         {"--model", "tiny", "--port", "0", "--api-key-file", file, "--drain-delay", "0", "--quiet"},
                         ends[1]);
    if (leaves) {
      ::close(ends[0]);
    } else { // a full pipe: whoever writes to it waits
      REQUIRE(::fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
      while (::write(ends[1], "full", 4) > 0 || ::write(ends[1], "f", 1) > 0) continue;
      REQUIRE(::fcntl(ends[1], F_SETFL, 0) == 0);
    }
    for (const char* key : {"second", "third", "fourth"}) {
      std::ofstream(file) << key << "\n";
      server.signal(SIGHUP);
      CHECK(ServerProcess::eventually([&] { return knows(server, key); }));
    }
    CHECK(sluice_test::get(server.port(), "/health") == "ok\n");
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
    if (!leaves) ::close(ends[0]);
    ::close(ends[1]);
  }
}

TEST_CASE("each answer has one line, with wall-clock time, request id and status" * needs_program("sluice-serve")) {
  Errors errors;
  ServerProcess server("sluice-serve",
                       {"--model", "tiny", "--port", "0", "--max-body", "1KiB", "--api-key", "k", "--drain-delay", "0"},
                       errors.writer());
  errors.started();
  const std::string key = "Authorization: Bearer k\r\n";
  const std::string id = "x-request-id: mine\r\n";
  const auto status = [&](const std::string& bytes) {
    Connection client(server.port());
    client.send(bytes);
    return client.response().status;
  };
  const std::string good = R"({"prompt":"a","max_tokens":2})";
  CHECK(status(post("/v1/completions", good, id)) == 401);
  CHECK(status(post("/v1/completions", good, key + id)) == 200);
  CHECK(status(post("/v1/completions", R"({"prompt":5})", key + id)) == 400);
  CHECK(status("GET /nothing?secret HTTP/1.1\r\nHost: localhost\r\n" + id + "\r\n") == 404);
  CHECK(status("PUT /v1/models HTTP/1.1\r\nHost: localhost\r\n" + key + id + "\r\n") == 405);
  CHECK(status(post("/v1/completions", std::string(2000, ' '), key + id)) == 413);
  CHECK(status("nonsense\r\n\r\n") == 400);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
  std::vector<int> statuses;
  int paths = 0;
  for (json line; errors.next(line);) {
    if (!line.is_object() || line.value("path", "") == "/ready" || !line.contains("status")) continue;
    INFO(line.dump());
    statuses.push_back(line["status"]);
    const auto time = line["time"].get<std::string>();
    REQUIRE(time.size() == 24);
    CHECK(time.substr(0, 2) == "20");
    CHECK(time[10] == 'T');
    CHECK(time[23] == 'Z');
    if (line.contains("path")) {
      ++paths;
      CHECK(line["request_id"] == "mine");
      CHECK(line["path"].get<std::string>().find("secret") == std::string::npos);
    }
    CHECK(line.contains("error") == (line["status"] != 200));
  }
  CHECK(statuses == std::vector<int>{401, 200, 400, 404, 405, 413, 400});
  CHECK(paths == 6); // of all requests; the last bytes are none
}
