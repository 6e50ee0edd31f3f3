// SPDX-License-Identifier: Apache-2.0
// --version: every program prints the same version of Sluice.
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <filesystem>
#include <regex>
#include <string>

TEST_CASE("every program has --version, and all print the same line" * sluice_test::needs_program("sluice-plan")) {
  const std::regex line{"sluice [0-9]+[.][0-9]+[.][0-9]+ "
                        "\\(commit (unknown|[0-9a-f]{7,40}(-dirty)?), [a-z]+([+][a-z,]+)* build\\)\n"};
  std::string first;
  int programs = 0;
  for (const auto& file : std::filesystem::directory_iterator(sluice_test::program_path(""))) {
    const std::string name = file.path().filename().string();
    if (name.find("sluice-") != 0) continue;
    INFO(name);
    const sluice_test::Ran ran = sluice_test::run_program(name, "--version 2>&1");
    CHECK(ran.code == 0);
    CHECK(std::regex_match(ran.out, line));
    if (first.empty()) first = ran.out;
    CHECK(ran.out == first);
    ++programs;
  }
  CHECK(programs >= 1);
}
