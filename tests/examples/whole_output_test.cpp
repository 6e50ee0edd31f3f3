// SPDX-License-Identifier: Apache-2.0
// A program that cannot write its whole output reports that.
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace {
namespace fs = std::filesystem;
using sluice_test::needs_program;
using sluice_test::Ran;
using sluice_test::run_program;
using sluice_test::TemporaryFolder;
} // namespace

TEST_CASE("every program reports that its output cannot be written" * needs_program("sluice-compare")) {
  std::error_code ignored;
  for (const std::string name :
       {"compare", "explore", "load", "plan", "profile", "run", "serve", "tiers", "train", "validate"}) {
    CAPTURE(name);
    const std::string program = "sluice-" + name;
    if (!fs::exists(sluice_test::program_path(program), ignored)) continue; // a library for it is missing
    const Ran full = run_program(program, "--help 2>&1 >/dev/full");
    CHECK(full.code == 2);
    CHECK(full.out == program + ": standard output: it cannot be written; expected room for it\n");
    CHECK(run_program(program, "--help >/dev/null").code == 0);
  }
  for (const std::string name : {"compare", "explore"}) // more output than standard output's buffer
    CHECK(run_program("sluice-" + name, "--list 2>&1 >/dev/full").out.find("standard output: it cannot be written") !=
          std::string::npos);
}

TEST_CASE("every example reports that its output cannot be written" * needs_program("serve_a_workload")) {
  std::vector<std::string> examples{"your_first_kernel"};
  for (const fs::directory_entry& entry : fs::directory_iterator("examples"))
    if (entry.path().extension() == ".cpp") examples.push_back(entry.path().stem().string().substr(3)); // after "01_"
  CHECK(examples.size() >= 10);
  std::error_code ignored;
  for (const std::string& example : examples) {
    CAPTURE(example);
    if (!fs::exists(sluice_test::program_path(example), ignored)) continue; // a library for it is missing
    // The argument is the server's port. A server that does not notice would run until the limit.
    const Ran full = run_program(example, "0 2>&1 >/dev/full", "timeout 300 ");
    CHECK(full.code == 2);
    CHECK(full.out == example + ": standard output: " + std::strerror(ENOSPC) + "\n");
  }
}

TEST_CASE("a reader that closes the pipe ends every program; if SIGPIPE is ignored, that is an error" *
          needs_program("sluice-compare")) {
  // The shell writes until there is no reader, and then starts the program; popen reads 3.
  const std::string gone = "{ { (trap '' PIPE; while echo; do :; done) 2>/dev/null; ", told = "; } | true; } 3>&1";
  std::error_code ignored;
  for (const std::string name :
       {"compare", "explore", "load", "plan", "profile", "run", "serve", "tiers", "train", "validate"}) {
    CAPTURE(name);
    const std::string program = "sluice-" + name;
    if (!fs::exists(sluice_test::program_path(program), ignored)) continue; // a library for it is missing
    CHECK(run_program(program, "--help 2>&3; echo $? >&3" + told, gone).out ==
          "141\n"); // by SIGPIPE, as `yes | head` ends
    CHECK(run_program(program, "--help 2>&3; echo $? >&3" + told, gone + "trap '' PIPE; ").out ==
          program + ": standard output: it cannot be written; expected room for it\n2\n");
  }
}

TEST_CASE("with a full disk under --out the table is still printed, and no partial file remains" *
          needs_program("sluice-compare")) {
  const std::string generated = "--generate 'poisson:rate=2,requests=6,prompt=uniform(100,400),output=uniform(20,60)' "
                                "--systems VllmSwap,OneAtATime --quiet ";
  const std::string prompts = "--prompt-ids 1,2,3 --prompt-ids 4,5 --max-tokens 24 --ignore-end ";
  const struct {
    std::string name, arguments, table, left;
  } programs[] = {{"compare", generated, "What users got", "report.html  for reading"},
                  {"explore", generated, "VllmSwap", "explore.html  for reading"},
                  {"run", prompts, "iterations", "report.json"}};
  for (const auto& of : programs) {
    CAPTURE(of.name);
    std::error_code ignored;
    const std::string program = "sluice-" + of.name;
    if (!fs::exists(sluice_test::program_path(program), ignored)) continue; // a library for it is missing
    const TemporaryFolder folder;
    const fs::path out = folder.path / "out", earlier = out / "datapackage.json";
    // Files are limited to a kilobyte or two: writing fails as on a full disk.
    const auto with_little_room = [&] {
      const Ran ran =
          run_program(program, of.arguments + "--out '" + out.string() + "' 2>&1", "trap '' XFSZ; ulimit -f 1; ");
      CAPTURE(ran.out);
      CHECK(ran.code == 2);
      CHECK(ran.out.find(of.table) != std::string::npos);
      CHECK(ran.out.find("the file cannot be written") != std::string::npos);
      CHECK(ran.out.find(of.left) == std::string::npos);
    };
    with_little_room();
    for (const auto& entry : fs::recursive_directory_iterator(out)) CHECK(!entry.is_regular_file());
    // Files of an earlier run are unchanged.
    REQUIRE(run_program(program, of.arguments + "--out '" + out.string() + "' >/dev/null 2>&1").code == 0);
    const std::string before = sluice_test::content(earlier);
    CHECK(before.size() > 1000);
    with_little_room();
    CHECK(sluice_test::content(earlier) == before);
  }
}
