// SPDX-License-Identifier: Apache-2.0
// --mpi: two ranks write what one does, byte for byte, and what goes wrong on one of them ends all, with a line and an
// exit code. Skipped by name without mpirun.
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

namespace {

using sluice_test::Ran;
using sluice_test::TemporaryFolder;

const std::string launcher = "mpirun --allow-run-as-root --oversubscribe --bind-to none -q -n ";

doctest::skip needs_mpi(const std::string& program) {
  // A program that was built without MPI says so, whatever else it is asked.
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0 ||
      (!sluice_test::program_path(program).empty() &&
       std::system(
           ("'" + sluice_test::program_path(program).string() + "' --mpi --list 2>&1 | grep -q 'was built without MPI'")
               .c_str()) == 0)) {
    std::fprintf(stderr, "skipped: a test needs mpirun and a build with MPI\n");
    return doctest::skip(true);
  }
  return sluice_test::needs_program(program);
}
Ran with_ranks(const std::string& program, int ranks, const std::string& arguments) {
  return sluice_test::run_program(program, "--mpi --quiet " + arguments + " 2>&1",
                                  launcher + std::to_string(ranks) + " ");
}
const std::string workload = "--generate demo:requests=6 --systems OneAtATime,VllmRecompute,VllmSwap --threads 1 ";

/// What each number of ranks leaves and prints, and a run without MPI: all of them one.
/// They are told once.
std::string check_alike(const std::string& program, const std::string& arguments,
                        std::initializer_list<const char*> files) {
  std::vector<std::string> all;
  const TemporaryFolder folder; // one for all: the command names it
  const std::string whole = arguments + " --out '" + folder.path.string() + "'";
  for (const int ranks : {0, 1, 2, 3}) {
    const Ran ran = ranks == 0 ? sluice_test::run_program(program, "--quiet " + whole + " 2>&1")
                               : with_ranks(program, ranks, whole);
    CAPTURE(ranks);
    CAPTURE(ran.out);
    REQUIRE(ran.code == 0);
    std::string left = ran.out;
    for (const char* file : files) {
      const std::string content = sluice_test::content(folder.path / file);
      CHECK(content.size() > 100);
      left += content;
      std::filesystem::remove(folder.path / file);
    }
    all.push_back(left);
  }
  for (const std::string& left : all) CHECK((left == all.front())); // no page in the log
  return all.front();
}

} // namespace

TEST_CASE("a grid, seeds and capacities are the same bytes whatever the ranks" * needs_mpi("sluice-compare")) {
  check_alike("sluice-compare", workload + "--deposit off --kv-blocks 400,800 --seeds 1,2",
              {"report.json", "report.html"});
  check_alike("sluice-compare", workload + "--seeds 1..3 --why",
              {"report.json", "report.html", "traces/VllmSwap-x1.5.json", "systems.csv", "requests.csv", "series.csv",
               "iterations.csv", "datapackage.json"});
  check_alike("sluice-compare", workload + "--deposit off --slo-ttft 20 --capacity 0.7 --seeds 1,2",
              {"report.json", "report.html"});
}

TEST_CASE("what is rare in a run travels between ranks as well" * needs_mpi("sluice-compare")) {
  const std::initializer_list<const char*> tables{"report.json", "report.html",    "systems.csv",     "requests.csv",
                                                  "series.csv",  "iterations.csv", "datapackage.json"};
  SUBCASE("several models, each with its own rows") {
    const std::string tenants = check_alike(
        "sluice-compare",
        "--tenants opt-13b@0.35,llama2-13b@0.35 --device gh200-96 --generate sharegpt:rate=6,requests=10 --slo-tbt 0.1 "
        "--systems VllmRecompute,Mirage,OneAtATime --deposit off --seeds 1..3 --threads 1",
        tables);
    CHECK(tenants.find("Mirage,llama2-13b,false,1.5,3,") != std::string::npos);
  }
  SUBCASE("requests that are refused, and where the time of all went") {
    const std::string left =
        check_alike("sluice-compare", workload + "--deposit off --kv-blocks 200 --seeds 1..3 --why all", tables);
    CHECK(left.find(",refused,") != std::string::npos);
    CHECK(left.find("In what the missed deadlines passed") != std::string::npos);
  }
}

TEST_CASE("an exploration is the same bytes whatever the ranks" * needs_mpi("sluice-explore")) {
  check_alike("sluice-explore", workload, {"explore.json", "explore.html"});
}

TEST_CASE("what is wrong on all ranks is said once" * needs_mpi("sluice-compare")) {
  for (const std::string wrong : {"--kv-blocks 400,x", "--trace /nowhere.csv --format azure", "--systems Nobody"}) {
    const Ran ran = with_ranks("sluice-compare", 2, workload + wrong);
    CAPTURE(ran.out);
    CHECK(ran.code == 2);
    CHECK(ran.out.find("sluice-compare: ") == 0);
    CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') == 1);
  }
}

TEST_CASE("what is wrong on one rank names the rank, and nobody waits for ever" * needs_mpi("sluice-compare")) {
  // Only one of them has the trace, or serves another workload.
  const TemporaryFolder folder;
  const auto ran_as = [&](const std::string& first, const std::string& second, const std::string& what = workload) {
    const std::string program = "'" + sluice_test::program_path("sluice-compare").string() + "' --mpi --quiet " + what;
    const std::string script =
        "if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then " + program + second + "; else exec " + program + first + "; fi";
    std::FILE* file = std::fopen((folder.path / "both.sh").c_str(), "w");
    REQUIRE(file != nullptr);
    std::fputs(script.c_str(), file);
    std::fclose(file);
    Ran ran;
    std::FILE* pipe = popen((launcher + "2 sh '" + (folder.path / "both.sh").string() + "' 2>&1").c_str(), "r");
    REQUIRE(pipe != nullptr);
    char buffer[4096];
    for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ran.out.append(buffer, n);
    const int status = pclose(pipe);
    ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ran;
  };
  const Ran missing = ran_as("", "--record /nowhere.json");
  CAPTURE(missing.out);
  CHECK(missing.code == 2);
  CHECK(missing.out.find("sluice-compare: rank 1 on ") == 0);
  CHECK(missing.out.find("/nowhere.json") != std::string::npos);
  const Ran other = ran_as("", "--batch 3");
  CHECK(other.code == 2);
  CHECK(other.out.find("it would serve something else than rank 0; expected the same files") != std::string::npos);
  const Ran ended = ran_as("", "--list");
  CHECK(ended.code == 2);
  CHECK(ended.out.find("sluice-compare: rank 1: it has ended; expected one command line") == 0);
  // The same lengths in another order, and a file of the same name with other content, are something else too.
  const auto wrote = [&](const std::string& name, const std::string& text) {
    std::FILE* file = std::fopen((folder.path / name).c_str(), "w");
    REQUIRE(file != nullptr);
    std::fputs(text.c_str(), file);
    std::fclose(file);
    return " '" + (folder.path / name).string() + "' ";
  };
  const std::string head = "TIMESTAMP,ContextTokens,GeneratedTokens\n", early = "2023-11-16 18:15:46.0,",
                    late = "2023-11-16 18:15:50.0,";
  const std::string one = wrote("one.csv", head + early + "400,40\n" + late + "300,30\n");
  const std::string swapped = wrote("swapped.csv", head + early + "300,30\n" + late + "400,40\n");
  const std::string few = "--systems VllmSwap --format azure --kv-blocks 600 --batch 4 --trace";
  CHECK(ran_as(one, one, few).code == 0);
  const Ran order = ran_as(one, swapped, few);
  CAPTURE(order.out);
  CHECK(order.code == 2);
  CHECK(order.out.find("it would serve something else than rank 0") != std::string::npos);
  // A rank that is killed takes the others along: mpirun sees to it. The work is half a minute's, and the rank is
  // killed when rank 0 has begun it: with its folder.
  const std::filesystem::path out = folder.path / "out";
  const std::string much = "--generate demo:requests=400 --systems OneAtATime,VllmSwap --threads 1 --seeds 1..100 ";
  const Ran dead = ran_as("--out '" + out.string() + "'",
                          "--out '" + out.string() + "' & until [ -d '" + out.string() +
                              "' ]; do sleep 0.1; done; kill -9 $!; wait $!; exit 1",
                          much);
  CHECK(dead.code != 0);
  CHECK(std::filesystem::exists(out));
  CHECK_FALSE(std::filesystem::exists(out / "report.json"));
}

TEST_CASE("ranks without --mpi are refused once, and --mpi=true is --mpi" * needs_mpi("sluice-compare")) {
  const auto ran_with = [](const std::string& flag) {
    return sluice_test::run_program(
        "sluice-compare", flag + " --quiet --table csv --columns system,tbt " + workload + " 2>&1", launcher + "2 ");
  };
  const Ran without = ran_with("");
  CHECK(without.code == 2);
  CHECK(without.out.find("sluice-compare: --mpi: 2 processes were started, and each would run all of it; expected") ==
        0);
  CHECK(std::count(without.out.begin(), without.out.end(), '\n') == 1);
  CHECK(ran_with("--mpi=true").out == ran_with("--mpi").out);
  CHECK(ran_with("--mpi=false").out.size() == 2 * ran_with("--mpi").out.size());
}
