// SPDX-License-Identifier: Apache-2.0
// Program: runs a program as its user does; a test is skipped by name if the program is missing.
#pragma once

#include "support/shared_data.hpp"
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <system_error>

namespace sluice_test {

/// The program's path in $SLUICE_BIN; empty if that is not set.
inline std::filesystem::path program_path(const std::string& name) {
  const char* folder = std::getenv("SLUICE_BIN");
  return folder == nullptr || *folder == '\0' ? std::filesystem::path{} : std::filesystem::path{folder} / name;
}

/// Decorates a test that runs the program and reads these shared files. (One decorator, since doctest uses only the
/// last of two.)
inline doctest::skip needs_program(const std::string& name, std::initializer_list<const char*> files = {}) {
  std::error_code ignored;
  const std::filesystem::path program = program_path(name);
  if (!program.empty() && std::filesystem::exists(program, ignored)) return needs_shared(files);
  std::fprintf(stderr, "skipped: a test needs %s (set SLUICE_BIN to the folder that holds it)\n", name.c_str());
  return doctest::skip(true);
}

struct Ran {
  int code = -1;   ///< the exit code; -1 if a signal ended it
  std::string out; ///< its output
};

/// Runs the program in a shell: `arguments` may have quotes and redirections. `before` precedes the program's name, for
/// example an environment variable.
inline Ran run_program(const std::string& name, const std::string& arguments, const std::string& before = "") {
  Ran ran;
  std::string command = before;
  command.append("'").append(program_path(name).string()).append("' ").append(arguments);
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ran.out.append(buffer, n);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

/// Checks that a call is refused: one line that begins with the program's name and contains `part`, and exit code 2.
inline void check_refused(const std::string& name, const std::string& arguments, const std::string& part,
                          const std::string& before = "") {
  const Ran ran = run_program(name, arguments + " 2>&1", before);
  INFO(arguments);
  INFO(ran.out);
  CHECK(ran.code == 2);
  CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') == 1);
  CHECK(ran.out.find(name + ": ") == 0);
  CHECK(ran.out.find(part) != std::string::npos);
}

/// An empty folder, removed at the end of the scope.
struct TemporaryFolder {
  std::filesystem::path path;
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

/// A file's bytes; empty if it does not exist.
inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace sluice_test
