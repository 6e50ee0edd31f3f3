// SPDX-License-Identifier: Apache-2.0
// sluice-serve over TLS with curl as a client, or its refusal in a build without OpenSSL.
#include "serve/programs/connection.hpp"
#include "serve/programs/server_process.hpp"
#include "support/certificate.hpp"
#include "support/program.hpp"
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using sluice_test::Certificate;
using sluice_test::check_refused;
using sluice_test::Connection;
using sluice_test::needs_program;
using sluice_test::needs_tools;
using sluice_test::post;
using sluice_test::Response;
using sluice_test::ServerProcess;

/// One decorator for both conditions: doctest uses only the last of several.
doctest::skip needs_all() {
  return doctest::skip(needs_program("sluice-serve").data || needs_tools({"openssl", "curl"}).data);
}

std::string flags_of(const Certificate& certificate) {
  return "--tls-cert '" + certificate.file + "' --tls-key '" + certificate.key + "' ";
}

#if defined(SLUICE_HAS_OPENSSL)

/// A curl command that trusts only this certificate.
std::string curl(const Certificate& certificate, const ServerProcess& server, const std::string& arguments,
                 const std::string& path) {
  return "curl --silent --show-error --cacert '" + certificate.file + "' " + arguments + " " + server.url() + path;
}
std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  pclose(pipe);
  return text;
}

/// Passes the first connections on to a port, and accepts the others without a word.
class FallsSilent {
 public:
  FallsSilent(int to, int passed) : to_(to), passed_(passed), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener_, 64) == 0);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~FallsSilent() {
    ::shutdown(listener_, SHUT_RDWR); // ends the wait for a connection
    thread_.join();
    ::close(listener_);
  }
  FallsSilent(const FallsSilent&) = delete;
  FallsSilent& operator=(const FallsSilent&) = delete;
  [[nodiscard]] int port() const { return port_; }

 private:
  static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
  }
  void run() {
    std::vector<int> silent;
    for (int client; (client = ::accept(listener_, nullptr, nullptr)) >= 0;)
      if (passed_-- > 0)
        pass(client);
      else
        silent.push_back(client);
    for (const int client : silent) ::close(client);
  }
  /// Until one of the two ends.
  void pass(int client) const {
    const int server = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = loopback(to_);
    pollfd both[2]{{client, POLLIN, 0}, {server, POLLIN, 0}};
    bool open = ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    while (open && ::poll(both, 2, -1) > 0)
      for (int from = 0; from < 2; ++from) {
        if (both[from].revents == 0) continue;
        char bytes[4096];
        const ssize_t count = ::recv(both[from].fd, bytes, sizeof bytes, 0);
        open = open && count > 0 &&
               ::send(both[1 - from].fd, bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL) == count;
      }
    ::close(client);
    ::close(server);
  }

  int to_, passed_, listener_, port_ = 0;
  std::thread thread_;
};

#endif

} // namespace

#if defined(SLUICE_HAS_OPENSSL)

TEST_CASE("sluice-load abandons a TLS handshake that nobody answers" * needs_all()) {
  const Certificate certificate;
  const ServerProcess server(
      {"--model", "llama3-8b", "--simulate", "h100", "--tls-cert", certificate.file, "--tls-key", certificate.key});
  const FallsSilent between(server.port(), 2); // for /v1/models and /tokenize
  const sluice_test::Ran ran = sluice_test::run_program(
      "sluice-load", "--quiet --insecure --timeout 0.3 --generate even:rate=1000,requests=3,prompt=8,output=4 --url "
                     "https://127.0.0.1:" +
                         std::to_string(between.port()) + " 2>&1");
  INFO(ran.out);
  CHECK(ran.code == 1);
  CHECK(ran.out.find("no byte for 0.3 s") != std::string::npos);
  CHECK(ran.out.find("there is no server") == std::string::npos);
}

TEST_CASE("TLS: curl -N streams, plain HTTP is refused, and TERM drains" * needs_all()) {
  const Certificate certificate;
  ServerProcess server({"--model", "llama3-8b", "--simulate", "h100", "--api-key", "secret", "--tls-cert",
                        certificate.file, "--tls-key", certificate.key});
  CHECK(server.url().starts_with("https://"));
  const std::string key = "-H 'Authorization: Bearer secret' ";
  const auto complete = [&](int tokens) {
    return curl(certificate, server,
                "-N " + key + R"(-H 'Content-Type: application/json' -d '{"prompt":"a","stream":true,"max_tokens":)" +
                    std::to_string(tokens) + "}'",
                "/v1/completions");
  };
  const auto running = [&] {
    const std::string figures = output_of(curl(certificate, server, "", "/metrics"));
    const std::string name = "\nvllm:num_requests_running{model_name=\"llama3-8b\",engine=\"0\"} ";
    const std::size_t at = figures.find(name);
    return at == std::string::npos ? -1 : std::atoi(figures.c_str() + at + name.size());
  };

  std::FILE* const stream = popen((complete(4000) + " 2>/dev/null").c_str(), "r"); // lasts half a minute
  REQUIRE(stream != nullptr);
  char line[4096];
  REQUIRE(std::fgets(line, sizeof line, stream) != nullptr);
  CHECK(std::string{line}.starts_with("data: {"));
  CHECK(running() == 1); // begun and not ended
  pclose(stream);        // curl leaves
  CHECK(ServerProcess::eventually([&] { return running() == 0; }));

  const std::string whole = output_of(complete(5));
  INFO(whole);
  CHECK(whole.ends_with("data: [DONE]\n\n"));

  Connection plain(server.port());
  plain.send(post("/v1/completions", R"({"prompt":"a"})"));
  const Response refused = plain.response();
  CHECK(refused.status == 400);
  CHECK(refused.body == "this port speaks TLS; expected https://…\n");
  CHECK(plain.ended());
  CHECK(output_of(curl(certificate, server, "", "/health")) == "ok\n");

  server.signal(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("TLS: sluice-load checks the server's certificate, unless it is told not to" * needs_all()) {
  const Certificate certificate;
  const ServerProcess server(
      {"--model", "llama3-8b", "--simulate", "h100", "--tls-cert", certificate.file, "--tls-key", certificate.key});
  const std::string load =
      "--quiet --url " + server.url() + " --generate even:rate=1000,requests=20,prompt=8,output=5 --concurrency 4 ";
  for (const std::string& trust : {std::string{"--insecure "}, "--cacert '" + certificate.file + "' --closed-loop "}) {
    const sluice_test::Ran ran = sluice_test::run_program("sluice-load", load + trust + "2>&1");
    INFO(ran.out);
    CHECK(ran.code == 0);
    CHECK(ran.out.find("20") != std::string::npos);
  }
  check_refused("sluice-load", load, "there is no server: certificate verify failed");
  check_refused("sluice-load", load + "--cacert /nowhere", "--cacert: '/nowhere' cannot be read");
  check_refused("sluice-load", load + "--insecure --cacert a", "--insecure: with --cacert it says the opposite");
}

TEST_CASE("TLS: wrong files are refused in one line" * needs_all()) {
  const Certificate one, other;
  const std::string tiny = "--model tiny --port 0 ";
  check_refused("sluice-serve", tiny + "--tls-cert '" + one.file + "' --tls-key '" + other.key + "'",
                "--tls-key: '" + other.key + "' is not the key of the certificate in '" + one.file + "'; expected ");
  check_refused("sluice-serve", tiny + "--tls-cert /nowhere --tls-key '" + one.key + "'",
                "--tls-cert: '/nowhere': No such file");
  check_refused("sluice-serve", tiny + flags_of(one) + "--decisions '" + one.key + "'", "is the file of --tls-key");
  CHECK(sluice_test::content(one.key).find("PRIVATE KEY") != std::string::npos);
}

#else

TEST_CASE("TLS: a build without OpenSSL refuses --tls-cert in one line" * needs_all()) {
  check_refused("sluice-serve", "--model tiny --port 0 " + flags_of(Certificate{}),
                "--tls-cert: this build has no TLS");
}

#endif

TEST_CASE("TLS: a certificate without its key, or a key without its certificate, is refused in one line" *
          needs_program("sluice-serve")) {
  for (const char* flag : {"--tls-cert", "--tls-key"})
    check_refused("sluice-serve", "--model tiny --port 0 " + std::string{flag} + " README.md",
                  std::string{flag} + ": it stands alone; expected --tls-cert and --tls-key");
}
