// SPDX-License-Identifier: Apache-2.0
// ServerProcess: starts sluice-serve as a user does.
#pragma once

#include "serve/programs/connection.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

extern char** environ; // POSIX leaves this declaration to programs

namespace sluice_test {

/// Runs until the end of the scope.
class ServerProcess {
 public:
  /// Starts it with these flags, and waits until it is ready. It drains without a delay unless they have one.
  explicit ServerProcess(std::vector<std::string> flags)
      : ServerProcess("sluice-serve", with_usual(std::move(flags))) {}
  /// The same for another program that prints its address as sluice-serve does. `errors`: its standard error; below 0:
  /// this program's.
  ServerProcess(const std::string& program, std::vector<std::string> flags, int errors = -1) {
    flags.insert(flags.begin(), program_path(program).string());
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipe[0]);
    if (errors >= 0) posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    std::vector<char*> words;
    for (std::string& flag : flags) words.push_back(flag.data());
    words.push_back(nullptr);
    REQUIRE(posix_spawn(&process_, words.front(), &actions, nullptr, words.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    std::FILE* out = fdopen(pipe[0], "r");
    char line[4096];
    constexpr std::string_view admin = "admin: http://127.0.0.1:";
    while (port_ == 0 && std::fgets(line, sizeof line, out) != nullptr) {
      if (std::string_view(line).starts_with(admin)) admin_port_ = std::atoi(line + admin.size());
      for (const std::string_view scheme : {"http", "https"})
        if (const std::string begin = std::string{scheme} + "://127.0.0.1:"; std::string_view(line).starts_with(begin))
          port_ = std::atoi(line + begin.size()), scheme_ = scheme;
    }
    std::fclose(out);
    REQUIRE(port_ > 0);
    REQUIRE(eventually([&] { return ready(); }));
  }
  ~ServerProcess() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] int port() const { return port_; }
  /// Of --admin; 0: there is none.
  [[nodiscard]] int admin_port() const { return admin_port_; }
  [[nodiscard]] pid_t process() const { return process_; }
  [[nodiscard]] std::string url() const { return scheme_ + "://127.0.0.1:" + std::to_string(port_); }
  /// A value of /metrics, which --admin moves; below 0 if there is none of that name.
  [[nodiscard]] double metric(const std::string& name) const {
    const std::string text = get(admin_port_ > 0 ? admin_port_ : port_, "/metrics");
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
  /// Its exit status, or 128 plus the signal that ended it, as in a shell.
  [[nodiscard]] int wait() {
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  /// Whether the condition holds within five minutes: on a busy machine, a thread of the lowest priority may wait long.
  template <class Holds>
  static bool eventually(Holds&& holds) {
    for (int i = 0; i < 15000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

 private:
  static std::vector<std::string> with_usual(std::vector<std::string> flags) {
    if (std::find(flags.begin(), flags.end(), "--drain-delay") == flags.end())
      flags.insert(flags.end(), {"--drain-delay", "0"});
    flags.insert(flags.end(), {"--port", "0", "--quiet"});
    return flags;
  }
  [[nodiscard]] bool ready() const {
    if (scheme_ == "http") return get(port_, "/ready") == "ready\n";
    return std::system(("curl --silent --insecure --fail " + url() + "/ready >/dev/null").c_str()) == 0;
  }

  pid_t process_ = -1;
  int port_ = 0, admin_port_ = 0;
  std::string scheme_;
};

} // namespace sluice_test
