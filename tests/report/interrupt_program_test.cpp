// SPDX-License-Identifier: Apache-2.0
// Ctrl-C: an interrupted program prints its finished results and their number, exits with the signal's code, and leaves
// the folder of --out unchanged. The child's progress, on the test's terminal, shows when a run has finished.
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern char** environ; // POSIX leaves the declaration to programs

namespace sluice_test::interrupt {

namespace fs = std::filesystem;

/// A program whose standard output is a file, and whose standard error is a terminal, so that it draws progress at
/// once.
class Child {
 public:
  Child(const std::string& program, std::vector<std::string> words, fs::path out) : out_(std::move(out)) {
    words.insert(words.begin(), program_path(program).string());
    terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    REQUIRE(terminal_ >= 0);
    REQUIRE(grantpt(terminal_) == 0);
    REQUIRE(unlockpt(terminal_) == 0);
    const std::string terminal = ptsname(terminal_);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, terminal.c_str(), O_WRONLY | O_NOCTTY, 0);
    // A shell's background job ignores SIGINT, and its children inherit that.
    posix_spawnattr_t how;
    posix_spawnattr_init(&how);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&how, &signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    posix_spawnattr_setsigdefault(&how, &signals);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    REQUIRE(posix_spawn(&process_, arguments.front(), &actions, &how, arguments.data(), environ) == 0);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Child() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    ::close(terminal_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Sends the signal once `ready(output so far)` holds, and returns the program's exit code; 128 and the signal's
  /// number if the signal ended it, as in a shell, but with `died()`.
  int interrupt_when(const std::function<bool(const Child&)>& ready, int number) {
    until([&] {
      siginfo_t over = {};
      REQUIRE(::waitid(P_PID, static_cast<id_t>(process_), &over, WEXITED | WNOHANG | WNOWAIT) == 0);
      REQUIRE_MESSAGE(over.si_pid == 0, said_); // it ended by itself, too early to be interrupted
      return ready(*this);
    });
    ::kill(process_, number);
    int status = 0;
    until([&] { return ::waitpid(process_, &status, WNOHANG) == process_; });
    process_ = -1;
    listen();
    died_ = !WIFEXITED(status);
    return died_ ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  [[nodiscard]] bool died() const { return died_; }
  [[nodiscard]] std::string printed() const { return content(out_); }
  [[nodiscard]] const std::string& said() const { return said_; }
  /// The labels that progress showed, in order, each once.
  [[nodiscard]] std::vector<std::string> labels() const {
    std::vector<std::string> all;
    for (std::size_t at = 0; (at = said_.find("%  ", at)) != std::string::npos;) {
      at += 3;
      const std::size_t end = said_.find("  ", at);
      if (end == std::string::npos) break;
      const std::string label = said_.substr(at, end - at);
      if (std::find(all.begin(), all.end(), label) == all.end()) all.push_back(label);
    }
    return all;
  }
  /// "interrupted: 3 of 12 …".
  [[nodiscard]] std::pair<long, long> finished() const {
    const std::string before = ": interrupted: ";
    const std::size_t at = said_.find(before);
    REQUIRE_MESSAGE(at != std::string::npos, said_);
    char* end = nullptr;
    const long finished = std::strtol(said_.c_str() + at + before.size(), &end, 10);
    REQUIRE(std::string(end).starts_with(" of "));
    return {finished, std::strtol(end + 4, nullptr, 10)};
  }

 private:
  void listen() {
    char buffer[4096];
    for (ssize_t n; (n = ::read(terminal_, buffer, sizeof buffer)) > 0;)
      said_.append(buffer, static_cast<std::size_t>(n));
  }
  /// The limit of ten minutes only ends a test that hangs.
  template <class Holds>
  void until(Holds&& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    for (;;) {
      listen();
      if (holds()) return;
      INFO(said_);
      REQUIRE(std::chrono::steady_clock::now() < end);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  fs::path out_;
  std::string said_;
  int terminal_ = -1;
  pid_t process_ = -1;
  bool died_ = false;
};

/// With one thread, the last of this many labels appears when all earlier runs are finished.
std::function<bool(const Child&)> begun(std::size_t runs) {
  return [runs](const Child& child) { return child.labels().size() >= runs; };
}

/// Every file and folder below `folder`, with its bytes.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    all[entry.path().string()] = entry.is_regular_file() ? content(entry.path()) : "";
  return all;
}

/// As a shell splits a line; a word in single quotes may have blanks.
std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> all;
  for (std::string word; stream >> std::quoted(word, '\'');) all.push_back(word);
  return all;
}

long lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

/// The program takes minutes, but each run only a moment.
const std::string long_comparison =
    "--generate sharegpt:rate=2,requests=600 --deposit off --threads 1 --table csv --systems ";
const std::string several = "VllmRecompute,VllmSwap,SuperInfer,OrbitFlow,Ellm,HCache,Mirage,OneAtATime ";

TEST_CASE("an interrupted comparison prints its finished rows, and changes no file" * needs_program("sluice-compare")) {
  const TemporaryFolder folder;
  const fs::path out = folder.path / "out", fresh = folder.path / "fresh";
  const Ran earlier = run_program("sluice-compare", "--generate demo:requests=4 --systems VllmSwap --quiet --out '" +
                                                        out.string() + "' 2>&1");
  REQUIRE_MESSAGE(earlier.code == 0, earlier.out);
  const auto before = files_in(out);
  REQUIRE(before.size() > 5);
  for (const auto& [number, into] : {std::pair{SIGINT, out}, std::pair{SIGTERM, fresh}}) {
    Child child("sluice-compare",
                words(long_comparison + several + "--slo-scale 1,1.5,2,3 --out '" + into.string() + "'"),
                folder.path / "printed");
    CHECK(child.interrupt_when(begun(2), number) == 128 + number);
    INFO(child.said());
    CHECK_FALSE(child.died());
    const auto [finished, of] = child.finished();
    CHECK(finished >= 1);
    CHECK(finished < of);
    CHECK(lines(child.printed()) == 1 + finished);
    CHECK(child.said().find("no file is written") != std::string::npos);
    // The first row equals that of an uninterrupted run.
    const Ran alone = run_program("sluice-compare", long_comparison + "VllmRecompute --slo-scale 1 --quiet");
    CHECK(alone.code == 0);
    CHECK(child.printed().starts_with(alone.out));
  }
  CHECK(files_in(out) == before);
  CHECK(files_in(fresh).empty());
}

TEST_CASE("an interrupted comparison of seeds prints only rows with all seeds" * needs_program("sluice-compare")) {
  const TemporaryFolder folder;
  Child child("sluice-compare", words(long_comparison + several + "--seeds 1..3"), folder.path / "printed");
  CHECK(child.interrupt_when(begun(5), SIGINT) == 130);
  INFO(child.said());
  const auto [finished, of] = child.finished();
  CHECK(finished >= 4);
  CHECK(finished < of);
  CHECK(lines(child.printed()) == 1 + finished / 3);
}

TEST_CASE("an interrupted grid prints its finished rows, and leaves no file" * needs_program("sluice-compare")) {
  const TemporaryFolder folder;
  const fs::path out = folder.path / "out";
  Child child("sluice-compare",
              words(long_comparison +
                    "VllmRecompute,VllmSwap --kv-blocks 3000,4000,5000,6000,7000,8000 --slo-scale "
                    "1,2 --out '" +
                    out.string() + "'"),
              folder.path / "printed");
  CHECK(child.interrupt_when(begun(6), SIGINT) == 130);
  INFO(child.said());
  const auto [finished, of] = child.finished();
  CHECK(finished >= 5);
  CHECK(finished < of);
  CHECK(lines(child.printed()) == 1 + finished);
  CHECK(files_in(out).empty());
}

TEST_CASE("an interrupted search prints the capacities that it found, and leaves no file" *
          needs_program("sluice-compare")) {
  const TemporaryFolder folder;
  const fs::path out = folder.path / "out";
  Child child(
      "sluice-compare",
      words("--generate sharegpt:rate=2,requests=200 --deposit off --threads 1 --table csv --capacity 0.9 --systems " +
            several + "--seeds 1,2 --out '" + out.string() + "'"),
      folder.path / "printed");
  CHECK(child.interrupt_when(begun(3), SIGINT) == 130);
  INFO(child.said());
  const auto [finished, of] = child.finished();
  CHECK(finished >= 2);
  CHECK(finished < of);
  CHECK(lines(child.printed()) == 1 + finished / 2);
  CHECK(files_in(out).empty());
}

TEST_CASE("an interrupted exploration ranks the engines that ran, and leaves no file" *
          needs_program("sluice-explore")) {
  const TemporaryFolder folder;
  const fs::path out = folder.path / "out";
  Child child(
      "sluice-explore",
      words("--generate sharegpt:rate=2,requests=600 --systems VllmSwap --threads 1 --out '" + out.string() + "'"),
      folder.path / "printed");
  const auto one_has_run = [](const Child& one) {
    for (const std::string& label : one.labels())
      if (label.find(" of ") != std::string::npos && !label.starts_with("0 ")) return true;
    return false;
  };
  CHECK(child.interrupt_when(one_has_run, SIGINT) == 130);
  INFO(child.said());
  const auto [finished, of] = child.finished();
  CHECK(finished >= 1);
  CHECK(finished < of);
  const std::string all = "The best compositions of " + std::to_string(finished) + " that have run, of ";
  CHECK(child.printed().find(all) != std::string::npos);
  CHECK(child.printed().find("Engine<") != std::string::npos);
  CHECK(files_in(out).empty());
}

TEST_CASE("an interrupted run reports its finished requests, and leaves no file" * needs_program("sluice-run")) {
  const TemporaryFolder folder;
  const fs::path out = folder.path / "out";
  std::string flags = "--batch 1 --max-tokens 200 --ignore-end --decisions '" + (folder.path / "decisions").string() +
                      "' --out '" + out.string() + "'";
  for (int i = 0; i < 400; ++i) flags += " --prompt-ids " + std::to_string(i % 256);
  Child child("sluice-run", words(flags), folder.path / "printed");
  const auto second_is_shown = [](const Child& one) { return one.printed().find("\n1: ") != std::string::npos; };
  CHECK(child.interrupt_when(second_is_shown, SIGINT) == 130);
  INFO(child.said());
  const auto [finished, of] = child.finished();
  CHECK(finished >= 1);
  CHECK(finished < of);
  CHECK(of == 400);
  const std::string told =
      std::to_string(finished) + " done, 0 refused, " + std::to_string(of - finished) + " not finished; ";
  CHECK(child.printed().find(told) != std::string::npos);
  CHECK(files_in(out).empty());
  CHECK_FALSE(fs::exists(folder.path / "decisions"));
}

TEST_CASE("an interrupted run does not wait for later arrivals" * needs_program("sluice-run")) {
  const TemporaryFolder folder;
  const fs::path trace = folder.path / "trace.csv";
  {
    std::FILE* file = std::fopen(trace.c_str(), "w");
    REQUIRE(file != nullptr);
    std::fputs("arrived_at,num_prefill_tokens,num_decode_tokens\n0,4,4\n86400,4,4\n", file);
    std::fclose(file);
  }
  Child child(
      "sluice-run",
      words("--json --trace-columns arrival=arrived_at,prompt=num_prefill_tokens,output=num_decode_tokens --trace " +
            trace.string()),
      folder.path / "printed");
  // The bar is drawn at the first token; the day after the last one starts then, or soon.
  CHECK(child.interrupt_when(begun(1), SIGINT) == 130);
  INFO(child.said());
  CHECK(child.finished().second == 2);
  CHECK(child.printed().find("\"status\":\"unfinished\"") != std::string::npos);
}

} // namespace sluice_test::interrupt
