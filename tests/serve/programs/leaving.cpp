// SPDX-License-Identifier: Apache-2.0
// Clients that leave leak nothing, and slow clients delay nobody. SLUICE_LEAVERS: how many clients leave (1,000 by
// default, to save time).
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

using sluice_test::Connection;
using sluice_test::needs_program;
using sluice_test::post;
using sluice_test::Ran;
using sluice_test::run_program;
using sluice_test::ServerProcess;
using sluice_test::TemporaryFolder;
using namespace std::chrono_literals;

/// A figure of /proc/PID/status, in KiB.
long status_of(const ServerProcess& server, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(server.process()) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(name + ":", 0) == 0) return std::atol(line.c_str() + name.size() + 1);
  return -1;
}
long open_files(const ServerProcess& server) {
  const std::filesystem::directory_iterator files("/proc/" + std::to_string(server.process()) + "/fd");
  return std::distance(begin(files), end(files));
}
double milliseconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - then).count();
}

/// Runs so many clients, 200 at a time, which all leave: a third each while waiting, in prefill, and in decode.
nlohmann::json leave(const ServerProcess& server, int clients) {
  const TemporaryFolder folder;
  const std::string file = (folder.path / "load.json").string();
  const Ran ran = run_program("sluice-load", "--quiet --url " + server.url() + " --json " + file +
                                                 " --generate even:rate=10000,requests=" + std::to_string(clients) +
                                                 ",prompt=100,output=50 --concurrency 200 --leave 1 2>&1");
  INFO(ran.out);
  CHECK(ran.code == 0);
  return nlohmann::json::parse(sluice_test::content(file), nullptr, false);
}
void check_nothing_held(const ServerProcess& server, long files) {
  for (const char* name : {"vllm:num_requests_running", "vllm:num_requests_waiting", "sluice:num_requests_preempted",
                           "vllm:kv_cache_usage_perc"}) {
    INFO(name);
    CHECK(ServerProcess::eventually([&] { return server.metric(name) == 0; }));
  }
  // At most: `files` may include a connection of the readiness check that was not closed yet.
  CHECK(ServerProcess::eventually([&] { return open_files(server) <= files; }));
}

} // namespace

TEST_CASE("clients that leave, waiting, in prefill, in decode and preempted, leave no block, file or memory" *
          needs_program("sluice-serve")) {
  const char* const wanted = std::getenv("SLUICE_LEAVERS");
  const int clients = wanted == nullptr ? 1000 : std::max(1000, std::atoi(wanted));
  // Memory for about a third of the requests that run at once: the others are swapped out during their answers.
  const ServerProcess server({"--model", "llama3-8b", "--simulate", "h100", "--system", "VllmSwap", "--batch", "64",
                              "--kv-memory", "700MiB", "--queue", "10000"});
  const long files = open_files(server);
  (void)leave(server, 300); // the server keeps the memory that so many clients need
  check_nothing_held(server, files);
  const long before = status_of(server, "VmRSS");
  const auto report = leave(server, clients);
  REQUIRE(report.is_object());
  const int waiting = report["left_waiting"], prefill = report["left_prefill"], decode = report["left_decode"];
  CHECK(waiting > 0);
  CHECK(prefill > 0);
  CHECK(decode > 0);
  CHECK(server.metric("vllm:num_preemptions_total") > 0);
  check_nothing_held(server, files);
  const long after = status_of(server, "VmRSS");
  MESSAGE(clients << " clients: " << waiting << " left waiting, " << prefill << " in prefill, " << decode
                  << " in decode; " << server.metric("vllm:num_preemptions_total") << " preemptions; " << files
                  << " files open; " << before << " KiB before, " << after << " after");
  CHECK(after - before < 4096); // KiB: a leak of 1 KiB per client shows with 10,000 clients
}

TEST_CASE("a hundred connections that send a byte at a time do not delay /health" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "tiny"});
  std::vector<Connection> slow;
  for (int i = 0; i < 100; ++i) slow.emplace_back(server.port());
  const std::string head = "GET /health HTTP/1.1\r\nHost: x\r\nX: " + std::string(100, 'x');
  std::vector<double> times;
  for (std::size_t sent = 0; sent < 20; ++sent) {
    for (Connection& connection : slow) REQUIRE(connection.send(std::string_view(head).substr(sent, 1)));
    const auto asked = std::chrono::steady_clock::now();
    CHECK(sluice_test::get(server.port(), "/health") == "ok\n");
    times.push_back(milliseconds_since(asked));
    std::this_thread::sleep_for(20ms);
  }
  std::sort(times.begin(), times.end());
  MESSAGE("/health: median " << times[times.size() / 2] << " ms, longest " << times.back() << " ms");
  // Each response came while all of them waited. bench/serve measures how soon: a machine that runs tests may be busy.
}

TEST_CASE("a client that never reads is dropped, and its request's blocks are free" * needs_program("sluice-serve")) {
  const ServerProcess server({"--model", "llama3-8b", "--simulate", "h100", "--context", "100000"});
  Connection never(server.port(), INADDR_LOOPBACK, 2048);
  REQUIRE(never.send(post("/v1/completions", R"({"prompt":"a","max_tokens":90000,"n":16,"stream":true})")));
  CHECK(ServerProcess::eventually([&] { return server.metric("vllm:num_requests_running") > 0; }));
  CHECK(ServerProcess::eventually([&] { return server.metric("vllm:kv_cache_usage_perc") == 0; }));
  CHECK(server.metric("vllm:num_requests_running") == 0);
  CHECK(server.metric("vllm:generation_tokens_total") < 16 * 90'000.0); // dropped before all tokens were generated
}
