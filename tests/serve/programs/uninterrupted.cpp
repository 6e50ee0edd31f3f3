// SPDX-License-Identifier: Apache-2.0
// What an operator does to a server does not touch its streams: new keys, a new certificate, a rotated log, a drain.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/certificate.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace {

using nlohmann::json;
using sluice_test::Certificate;
using sluice_test::Connection;
using sluice_test::needs_program;
using sluice_test::needs_tools;
using sluice_test::Ran;
using sluice_test::run_program;
using sluice_test::ServerProcess;
using sluice_test::TemporaryFolder;

constexpr int streams = 200;

/// One decorator for both conditions: doctest uses only the last of several.
doctest::skip needs_all() {
#if defined(SLUICE_HAS_OPENSSL)
  return doctest::skip(needs_program("sluice-serve").data || needs_tools({"openssl", "curl"}).data);
#else
  return doctest::skip(true);
#endif
}

/// The files that the server reads again at HUP.
struct Renewable {
  TemporaryFolder folder;
  std::string cert = (folder.path / "cert.pem").string(), key = (folder.path / "key.pem").string(),
              keys = (folder.path / "keys").string();

  void renew(const Certificate& from, const char* secret) const {
    const auto over = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(from.file, cert, over);
    std::filesystem::copy_file(from.key, key, over);
    std::ofstream(keys) << "alice: " << secret << "\n";
  }
};

/// The server's log, as a supervisor keeps it: a file to which standard error is appended.
struct LogFile {
  std::string path;
  int handle;

  explicit LogFile(std::string path_)
      : path(std::move(path_)), handle(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
    REQUIRE(handle >= 0);
  }
  ~LogFile() { ::close(handle); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// As logrotate's `copytruncate`.
  void rotate() const {
    std::filesystem::copy_file(path, path + ".1");
    std::filesystem::resize_file(path, 0);
  }
  /// Lines of answers that ended at their length.
  [[nodiscard]] int ends() const {
    std::ifstream file(path);
    int count = 0;
    for (std::string text; std::getline(file, text);) {
      const json line = json::parse(text, nullptr, false);
      if (line.is_object() && line.value("event", "") == "end" && line["reason"] == "length") ++count;
    }
    return count;
  }
};

double metric_sum(const ServerProcess& server, const std::string& name) {
  std::istringstream text(sluice_test::get(server.admin_port(), "/metrics"));
  double sum = -1;
  for (std::string line; std::getline(text, line);)
    if (line.starts_with(name + "{")) sum = std::max(sum, 0.0) + std::atof(line.c_str() + line.rfind(' '));
  return sum;
}
int status_of(int port, const char* path) {
  Connection connection(port);
  connection.send("GET " + std::string{path} + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return connection.response().status;
}
bool answers_over(const Certificate& certificate, const ServerProcess& server) {
  return std::system(("curl --silent --fail --cacert '" + certificate.file + "' " + server.url() + "/health >/dev/null")
                         .c_str()) == 0;
}

/// Starts 200 streams over TLS and does all that while they run. Checks that every token comes, whether or not the
/// streams lasted as long; returns whether they did.
bool all_during_streams(int tokens) {
  const Certificate first, second;
  const Renewable files;
  files.renew(first, "old");
  const LogFile log((files.folder.path / "log").string());
  ServerProcess server(
      "sluice-serve",
      {"--model",   "llama3-8b", "--simulate", "h100",     "--batch",   "200",     "--max-batch-tokens", "1024",
       "--context", "100000",    "--tls-cert", files.cert, "--tls-key", files.key, "--api-key-file",     files.keys,
       "--port",    "0",         "--admin",    "0",        "--drain",   "80000",   "--drain-delay",      "0"},
      log.handle);
  const std::string report = (files.folder.path / "load.json").string();
  Ran ran;
  std::thread client([&] {
    ran =
        run_program("sluice-load", "--quiet --url " + server.url() + " --cacert '" + first.file + "' --json " + report +
                                       " --api-key old --generate even:rate=10000,requests=" + std::to_string(streams) +
                                       ",prompt=16,output=" + std::to_string(tokens) + " 2>&1");
  });
  CHECK(ServerProcess::eventually(
      [&] { return server.metric("vllm:time_to_first_token_seconds_count") == streams; })); // all run
  files.renew(second, "new");
  server.signal(SIGHUP);
  CHECK(ServerProcess::eventually([&] { return answers_over(second, server); }));
  log.rotate();
  server.signal(SIGTERM);
  const bool drains = ServerProcess::eventually([&] { return status_of(server.admin_port(), "/ready") != 200; });
  CHECK(drains);
  const bool all_run = metric_sum(server, "vllm:request_success_total") == 0; // and the server has not ended
  CHECK(server.wait() == 0);
  client.join();
  INFO(ran.out);
  CHECK(ran.code == 0);
  const json counted = json::parse(sluice_test::content(report), nullptr, false);
  REQUIRE(counted.is_object());
  CHECK(counted["completed"] == streams);
  CHECK(counted["total_output_tokens"] == streams * tokens);
  for (const auto& [name, count] : counted["violations"].items()) {
    INFO(name);
    CHECK(count == 0);
  }
  if (all_run) {
    CHECK(log.ends() == streams);
    CHECK(sluice_test::content(log.path).front() != '\0'); // the file goes on where it was cut, without a hole
  }
  return all_run;
}

} // namespace

TEST_CASE("200 streams lose no token while HUP, new keys, a new certificate, a rotated log and a drain happen" *
          needs_all()) {
  int tokens = 200;
  while (!all_during_streams(tokens)) tokens *= 2; // a slow machine needs longer streams
  MESSAGE(tokens << " tokens a stream outlived it all");
}
