// SPDX-License-Identifier: Apache-2.0
// A server under a supervisor: what it tells systemd, and its flags from a file.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

using sluice_test::check_refused;
using sluice_test::needs_program;
using sluice_test::run_program;
using sluice_test::ServerProcess;
using sluice_test::TemporaryFolder;

/// systemd's end of $NOTIFY_SOCKET, for programs that start while it lives.
class Supervisor {
 public:
  Supervisor() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = (folder_.path / "notify").string();
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    REQUIRE(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    ::setenv("WATCHDOG_USEC", "100000", 1);
  }
  ~Supervisor() {
    ::unsetenv("NOTIFY_SOCKET");
    ::unsetenv("WATCHDOG_USEC");
    ::close(socket_);
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  /// Waits for a message that begins so; false if for five minutes nothing comes.
  bool hears(const std::string& begin) {
    for (;;) {
      pollfd wait{socket_, POLLIN, 0};
      if (::poll(&wait, 1, 300'000) <= 0) return false;
      char text[512];
      const ssize_t bytes = ::recv(socket_, text, sizeof text, 0);
      if (bytes > 0 && std::string(text, static_cast<std::size_t>(bytes)).starts_with(begin)) return true;
    }
  }

 private:
  TemporaryFolder folder_;
  int socket_;
};

} // namespace

TEST_CASE("a server tells systemd that it is ready, that it lives and that it drains" * needs_program("sluice-serve")) {
  Supervisor systemd;
  ServerProcess server({"--model", "llama3-8b", "--simulate", "h100"});
  CHECK(systemd.hears("READY=1"));
  CHECK(systemd.hears("WATCHDOG=1"));
  CHECK(systemd.hears("WATCHDOG=1"));
  server.signal(SIGTERM);
  CHECK(systemd.hears("STOPPING=1"));
  CHECK(server.wait() == 0);
}

TEST_CASE("--config reads flags from a file; the command line overrides them" * needs_program("sluice-serve")) {
  const TemporaryFolder folder;
  const std::string file = (folder.path / "serve.conf").string();
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  write("# a comment\nmodel = \"llama3-8b\"\nsimulate = \"h100\"\nname = \"of the file\"\nbatch = 3\n");
  const ServerProcess server({"--config", file, "--name", "of the line"});
  const std::string models = sluice_test::get(server.port(), "/v1/models");
  CHECK(models.find("\"of the line\"") != std::string::npos);
  CHECK(sluice_test::get(server.port(), "/live/state").find("simulated on") != std::string::npos);
  write("modle = \"tiny\"\n");
  check_refused("sluice-serve", "--config " + file, "--config: ");
  check_refused("sluice-serve", "--config " + file, "modle");
  write("port = 70000\n");
  check_refused("sluice-serve", "--config " + file, "--port: it is '70000'; expected a whole number from 0 to 65535");
  check_refused("sluice-serve", "--config /nowhere/serve.conf", "/nowhere/serve.conf");
}
