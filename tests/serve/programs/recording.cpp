// SPDX-License-Identifier: Apache-2.0
// --record keeps what earlier runs wrote.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

using sluice_test::asked;
using sluice_test::content;
using sluice_test::needs_program;
using sluice_test::ServerProcess;
using sluice_test::TemporaryFolder;

std::int64_t line_count(const std::string& path) {
  const std::string text = content(path);
  return std::count(text.begin(), text.end(), '\n');
}

} // namespace

TEST_CASE("--record and --record-clock never truncate an earlier run's file: the next run numbers both" *
          needs_program("sluice-serve")) {
  const TemporaryFolder folder;
  const auto in = [&](const char* name) { return (folder.path / name).string(); };
  const auto serve = [&](int requests) {
    ServerProcess server(
        {"--model", "llama3-8b", "--simulate", "h100", "--record", in("day.jsonl"), "--record-clock", in("clock")});
    for (int i = 0; i < requests; ++i)
      CHECK(asked(server.port(), "/v1/completions", R"({"prompt":"a","max_tokens":2})").response().status == 200);
    server.signal(SIGTERM);
    CHECK(server.wait() == 0);
  };
  serve(1);
  const std::string first = content(in("day.jsonl")), clock = content(in("clock"));
  serve(2);
  serve(3);
  CHECK(content(in("day.jsonl")) == first);
  CHECK(content(in("clock")) == clock);
  CHECK(line_count(in("day.jsonl")) == 1);
  CHECK(line_count(in("day.1.jsonl")) == 2);
  CHECK(line_count(in("day.2.jsonl")) == 3);
  CHECK(line_count(in("clock.1")) > 1);
  CHECK(line_count(in("clock.2")) > 1);
  std::ofstream(in("day.3.jsonl")).close(); // empty: nothing is lost
  serve(4);
  CHECK(line_count(in("day.3.jsonl")) == 4);
}

TEST_CASE("a server goes on whose --record is a pipe, after its reader has gone" * needs_program("sluice-serve")) {
  const TemporaryFolder folder;
  const std::string pipe = (folder.path / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); // without one, the server would wait
  REQUIRE(reader >= 0);
  ServerProcess server({"--model", "tiny", "--record", pipe});
  ::close(reader);
  for (int i = 0; i < 2; ++i)
    CHECK(asked(server.port(), "/v1/completions", R"({"prompt":"a","max_tokens":2})").response().status == 200);
  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("two servers that are given one --record write two files" * needs_program("sluice-serve")) {
  const TemporaryFolder folder;
  const std::string file = (folder.path / "r").string();
  const ServerProcess one({"--model", "llama3-8b", "--simulate", "h100", "--record", file});
  const ServerProcess other({"--model", "llama3-8b", "--simulate", "h100", "--record", file});
  CHECK(std::filesystem::exists(file + ".1"));
}

TEST_CASE("--list says which systems cannot serve, and the others can" * needs_program("sluice-serve")) {
  const std::string listed = sluice_test::run_program("sluice-serve", "--list").out;
  int refused = 0;
  for (std::size_t at = 0; at < listed.size();) {
    const std::string line = listed.substr(at, listed.find('\n', at) - at);
    at += line.size() + 1;
    const std::string system = line.substr(0, line.find(' '));
    INFO(line);
    if (line.find("cannot serve") == std::string::npos) continue;
    ++refused;
    sluice_test::check_refused("sluice-serve", "--model llama3-8b --simulate h100 --port 0 --system " + system,
                               "which a server cannot know");
  }
  CHECK(refused == 2);
}
