// SPDX-License-Identifier: Apache-2.0
// What a program writes is there in whole, or the program says that it is not.
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

namespace {
namespace fs = std::filesystem;
using sluice_test::needs_program;
using sluice_test::Ran;
using sluice_test::run_program;
using sluice_test::TemporaryFolder;
} // namespace

TEST_CASE("every program says that its output cannot be written" * needs_program("sluice-compare")) {
  std::error_code ignored;
  for (const std::string name :
       {"compare", "explore", "load", "plan", "profile", "run", "serve", "train", "validate"}) {
    CAPTURE(name);
    const std::string program = "sluice-" + name;
    if (!fs::exists(sluice_test::program_path(program), ignored)) continue; // for want of a library
    const Ran full = run_program(program, "--help 2>&1 >/dev/full");
    CHECK(full.code == 2);
    CHECK(full.out == program + ": standard output: it cannot be written; expected room for it\n");
    CHECK(run_program(program, "--help >/dev/null").code == 0);
  }
  for (const std::string name : {"compare", "explore"}) // more than a buffer of standard output
    CHECK(run_program("sluice-" + name, "--list 2>&1 >/dev/full").out.find("standard output: it cannot be written") !=
          std::string::npos);
}

TEST_CASE("a full disk under --out does not take the table, and leaves no part of a file" *
          needs_program("sluice-compare")) {
  const TemporaryFolder folder;
  const std::string out = (folder.path / "out").string();
  // No file may be longer than a kilobyte or two: writing fails as it does where a disk is full.
  const Ran ran = run_program("sluice-compare",
                              "--generate 'poisson:rate=2,requests=6,prompt=uniform(100,400),output=uniform(20,60)' "
                              "--systems VllmSwap,OneAtATime --quiet --out '" +
                                  out + "' 2>&1",
                              "trap '' XFSZ; ulimit -f 1; ");
  CHECK(ran.code == 2);
  CHECK(ran.out.find("What users got") != std::string::npos);
  CHECK(ran.out.find("VllmSwap") != std::string::npos);
  CHECK(ran.out.find("the file cannot be written") != std::string::npos);
  CHECK(ran.out.find("report.html  to look at") == std::string::npos);
  for (const auto& entry : fs::recursive_directory_iterator(out)) CHECK(!entry.is_regular_file());
}
