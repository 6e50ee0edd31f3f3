// SPDX-License-Identifier: Apache-2.0
// Each example succeeds, prints nothing on standard error, and prints the results that its first lines announce.
#include "support/program.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using sluice_test::needs_program;
using sluice_test::Ran;

std::string printed_by(const std::string& example) {
  const Ran ran = sluice_test::run_program(example, "2>&1");
  INFO(ran.out);
  REQUIRE(ran.code == 0);
  CHECK(ran.out.find(example + ": ") == std::string::npos); // how its errors would begin
  return ran.out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The numbers in a line, without units.
std::vector<double> numbers_in(const std::string& line) {
  static const std::regex number("(?:^| )(-?[0-9]+(?:\\.[0-9]+)?)(?= |$)");
  std::vector<double> all;
  for (std::sregex_iterator it(line.begin(), line.end(), number), end; it != end; ++it)
    all.push_back(std::stod((*it)[1]));
  return all;
}

/// The numbers after `name` in the line that begins with it.
std::vector<double> row(const std::string& text, const std::string& name) {
  for (const std::string& line : lines_of(text))
    if (line.rfind(name + " ", 0) == 0) return numbers_in(line.substr(name.size()));
  FAIL("there is no row " << name << " in:\n" << text);
  return {};
}

} // namespace

TEST_CASE("the examples are numbered from 1 in the order of their table, none longer than 150 lines") {
  std::ifstream readme("examples/README.md");
  REQUIRE(readme.good());
  const std::string text{std::istreambuf_iterator<char>(readme), {}};
  std::set<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator("examples"))
    if (entry.path().extension() == ".cpp") files.insert(entry.path().filename().string());
  CHECK(files.size() >= 6);
  CHECK(files.size() <= 13);
  std::size_t number = 0, at = 0;
  for (const std::string& file : files) { // sorted
    ++number;
    CHECK(file.starts_with((number < 10 ? "0" : "") + std::to_string(number) + "_"));
    at = text.find("](" + file + ")", at);
    CHECK_MESSAGE(at != std::string::npos, file,
                  " is not in the table of examples/README.md, or not behind the one before");
    std::ifstream source(fs::path("examples") / file);
    const std::string code{std::istreambuf_iterator<char>(source), {}};
    CHECK_MESSAGE(std::count(code.begin(), code.end(), '\n') <= 150, file);
    CHECK_MESSAGE(code.find("\n// The problem: ") != std::string::npos, file);
    CHECK_MESSAGE(std::regex_search(code, std::regex("Goals of this\\s+(// )?program:")), file);
  }
}

TEST_CASE("your_first_kernel: the emulator has the means of the plain loop" * needs_program("your_first_kernel")) {
  const std::string out = printed_by("your_first_kernel");
  CHECK(out.find("10 mean keys in 3 orders of threads: at most ") == 0);
}

TEST_CASE("serve_a_workload: the more users, the fewer are served in time" * needs_program("serve_a_workload")) {
  const std::string out = printed_by("serve_a_workload");
  double before = 101;
  int rows = 0;
  for (const char* rate : {"     0.5", "     1.0", "     2.0", "     4.0", "     6.0"}) {
    const std::vector<double> one = row(out, rate);
    REQUIRE(one.size() == 7);
    CHECK(one[2] < before); // TBT met
    before = one[2];
    ++rows;
  }
  CHECK(rows == 5);
}

TEST_CASE("compare_two_systems: neither is better at everything" * needs_program("compare_two_systems")) {
  const std::string out = printed_by("compare_two_systems");
  const std::vector<double> roomy = row(out, "  1000 VllmSwap"), layered = row(out, "  1000 OrbitFlow");
  const std::vector<double> tight = row(out, "   500 VllmSwap"), starved = row(out, "   500 OrbitFlow");
  CHECK(layered[0] > roomy[0]);
  CHECK(starved[0] < tight[0]);
  CHECK(starved[1] > tight[1]); // and yet more have their first token in time
}

TEST_CASE("your_first_policy: beats the heuristic that takes the same from everybody" *
          needs_program("your_first_policy")) {
  const std::string out = printed_by("your_first_policy");
  CHECK(row(out, "MyEngine")[0] > row(out, "DynamicHeuristic")[0]);
  CHECK(row(out, "OneAtATime")[0] == 100);
}

TEST_CASE("a_relief: the choice of the preempted request and the gate both matter" * needs_program("a_relief")) {
  const std::string out = printed_by("a_relief");
  const double own = row(out, "MostSlack          the one furthest ahead")[1];
  CHECK(own > row(out, "PreemptNewest      the newest (vLLM)")[1]);
  CHECK(own > row(out, "PauseLargest       the largest (OrbitFlow)")[1]);
  CHECK(own > row(out, "MostSlackGated     the same, back when another ends")[1]);
}

TEST_CASE("a_cost_model: a wrong model costs the users, and calibration corrects it" * needs_program("a_cost_model")) {
  const std::string out = printed_by("a_cost_model");
  const double right = row(out, "the world's own model")[1];
  for (const char* wrong : {"an envelope, times a third", "an envelope, times three"})
    CHECK(row(out, wrong)[1] < right);
  for (const char* factor : {"times a third", "times three"}) { // by mean E2E
    CAPTURE(factor);
    CHECK(row(out, std::string{factor} + ", calibrated")[3] < row(out, std::string{"an envelope, "} + factor)[3]);
  }
}

TEST_CASE("a_product: all engines, ranked, and the effect of each choice" * needs_program("a_product")) {
  const std::string out = printed_by("a_product");
  CHECK(out.find(
            "8 combinations: 6 engines, 2 that repeat another because a choice has no effect, 0 that do not compose") ==
        0);
  double before = 101;
  for (int rank = 1; rank <= 6; ++rank) {
    const std::vector<double> one = row(out, "   " + std::to_string(rank));
    CHECK(one[0] <= before);
    before = one[0];
  }
  CHECK(row(out, "DistancePlacement").at(0) > row(out, "AllResident").at(0));
  CHECK(out.find("Engine<DistancePlacement, MoveToHost>\n") != std::string::npos);
}

TEST_CASE("run_for_real: the tokens are the same with less memory, and something moved" *
          needs_program("run_for_real")) {
  const std::string out = printed_by("run_for_real");
  CHECK(out.find("\nthe tokens are the same; ") != std::string::npos);
  std::vector<std::vector<double>> runs;
  for (const std::string& line : lines_of(out)) {
    const std::vector<double> numbers = numbers_in(line);
    if (numbers.size() == 7) runs.push_back(numbers);
  }
  REQUIRE(runs.size() == 2);
  CHECK(runs[0][0] >= runs[0][1]); // KV for all
  CHECK(runs[1][0] < runs[1][1]);
  CHECK(runs[1][6] > runs[0][6]);  // MB moved
  CHECK(runs[0][2] == runs[1][2]); // tokens
}

TEST_CASE("a_cache_policy: its own policy finds more than HiCache, and writes less" * needs_program("a_cache_policy")) {
  const std::string out = printed_by("a_cache_policy");
  const std::vector<double> device = row(out, "VllmPrefixCaching"), all = row(out, "HiCache"),
                            own = row(out, "MyEngine");
  REQUIRE(own.size() == 4);
  CHECK(device[1] == 0);
  CHECK(device[3] == 0);
  CHECK(own[0] > all[0]);
  CHECK(all[0] > device[0]);
  CHECK(own[2] < all[2]);
  CHECK(own[3] < all[3]);
}

TEST_CASE("session_hints: who reads none is as fast, honest hints shorten later turns, a TTL without a bound does not" *
          needs_program("session_hints")) {
  const std::string out = printed_by("session_hints");
  for (const char* name : {"| VllmPrefixCaching", "| CachedAttention", "| HiCache"}) {
    const std::vector<double> ignores = row(out, name);
    REQUIRE(ignores.size() == 6);
    for (const std::size_t silent : {0u, 2u, 4u}) CHECK(ignores[silent] == ignores[silent + 1]);
  }
  const std::vector<double> hints = row(out, "| HiCacheHints"), unbounded = row(out, "| Continuum");
  REQUIRE(hints.size() == 7);
  REQUIRE(unbounded.size() == 7);
  CHECK(hints[4] < hints[3]); // later turns' TTFT
  CHECK(hints[6] > hints[5]); // found
  CHECK(hints[1] <= hints[0]);
  CHECK(unbounded[1] > unbounded[0]);
}

TEST_CASE("plan_one_instance: planned is shorter than by hand, and proven" * needs_program("plan_one_instance")) {
  const std::string out = printed_by("plan_one_instance");
  const std::regex step("a step takes ([0-9.]+) ms");
  std::vector<double> steps;
  for (std::sregex_iterator it(out.begin(), out.end(), step), end; it != end; ++it)
    steps.push_back(std::stod((*it)[1]));
  REQUIRE(steps.size() == 4);
  CHECK(steps[1] < steps[0]); // the same device, planned and by hand
  CHECK(steps[1] == 12);      // twelve layers of 1 ms: nothing waits
  CHECK(steps[2] < steps[3]); // less memory
  CHECK(out.find("proven") != std::string::npos);
  CHECK(out.find("no plan for 100 blocks: the limit is device memory\n") != std::string::npos);
}

TEST_CASE("a_router: your own router finds more than a round robin, and its first tokens come sooner than with others" *
          needs_program("a_router")) {
  const std::string out = printed_by("a_router");
  const std::vector<double> turns = row(out, "RoundRobin"), own = row(out, "FoundUnlessBusy"); // served, found, TTFT, …
  for (const char* other : {"RoundRobin", "LeastLoaded", "BySession"}) CHECK(own[2] < row(out, other)[2]);
  CHECK(own[1] > 1.5 * turns[1]);
  CHECK(own[0] == turns[0]);
}
