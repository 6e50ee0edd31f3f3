// SPDX-License-Identifier: Apache-2.0
// ServerProcess: sluice-serve, started as its user does; get: what it says at a path.
#pragma once

#include "support/program.hpp"
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

extern char** environ; // POSIX, which leaves it to programs to declare this

namespace sluice_test {

/// What a server on this machine answers to `request`, and ends the connection: the body; empty where nobody answers.
inline std::string ask(int port, const std::string& request) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string text;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    if (::send(socket, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
      char buffer[4096];
      for (ssize_t n; (n = ::recv(socket, buffer, sizeof buffer, 0)) > 0;)
        text.append(buffer, static_cast<std::size_t>(n));
    }
  }
  ::close(socket);
  const std::size_t head = text.find("\r\n\r\n");
  return head == std::string::npos ? std::string{} : text.substr(head + 4);
}
/// The body of http://127.0.0.1:port/path; empty where nobody answers.
inline std::string get(int port, const std::string& path) {
  return ask(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
}

/// Until the end of the scope.
class ServerProcess {
 public:
  /// Starts it with these flags, and waits until it is ready.
  explicit ServerProcess(std::vector<std::string> flags)
      : ServerProcess("sluice-serve", (flags.insert(flags.begin(), {"--port", "0", "--quiet"}), std::move(flags))) {}
  /// The same of another program, which says where it listens as sluice-serve does.
  ServerProcess(const std::string& program, std::vector<std::string> flags) {
    flags.insert(flags.begin(), program_path(program).string());
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipe[0]);
    std::vector<char*> words;
    for (std::string& flag : flags) words.push_back(flag.data());
    words.push_back(nullptr);
    REQUIRE(posix_spawn(&process_, words.front(), &actions, nullptr, words.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    std::FILE* out = fdopen(pipe[0], "r");
    char line[4096];
    const std::string begin = "http://127.0.0.1:";
    while (port_ == 0 && std::fgets(line, sizeof line, out) != nullptr)
      if (std::string_view(line).substr(0, begin.size()) == begin) port_ = std::atoi(line + begin.size());
    std::fclose(out);
    REQUIRE(port_ > 0);
    REQUIRE(eventually([&] { return get(port_, "/ready") == "ready\n"; }));
  }
  ~ServerProcess() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] pid_t process() const { return process_; }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// A figure of /metrics; below 0 where there is none of that name.
  [[nodiscard]] double metric(const std::string& name) const {
    const std::string text = get(port_, "/metrics");
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      if (line.substr(0, name.size()) == name && (line[name.size()] == ' ' || line[name.size()] == '{'))
        return std::atof(std::string(line.substr(line.rfind(' '))).c_str());
      begin = end + 1;
    }
    return -1;
  }

  void signal(int number) const { ::kill(process_, number); }
  /// Its exit status, -1 where a signal ended it.
  [[nodiscard]] int wait() {
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// Whether that holds within twenty seconds.
  template <class Holds>
  static bool eventually(Holds&& holds) {
    for (int i = 0; i < 1000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

 private:
  pid_t process_ = -1;
  int port_ = 0;
};

} // namespace sluice_test
