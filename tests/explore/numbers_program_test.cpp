// SPDX-License-Identifier: Apache-2.0
// sluice-explore --numbers: equal plans give equal results, with any threads, and after an end at any point.
#include "support/program.hpp"
#include "support/results.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

using sluice_test::content;
using sluice_test::TemporaryFolder;

const char* const plan = R"({
  "system": "Confluence",
  "numbers": {"SlackFirst.longest": [1, 16], "SlackFirst.misses": [0, 2], "GroupedDistance.groups": [2, 8]},
  "settings": 5, "seed": 3,
  "workloads": {
    "few": "--generate poisson:rate=2,requests=6,prompt=uniform(100,400),output=uniform(20,60) --kv-blocks 60 --batch 4 --slo-tbt 0.02",
    "more": "--generate poisson:rate=3,requests=8,prompt=uniform(100,400),output=uniform(20,60) --kv-blocks 60 --batch 4 --slo-tbt 0.02"
  },
  "train": {"seeds": "1..3", "workloads": ["few"]},
  "test": {"seeds": "11,12", "workloads": ["few", "more"]}
})";

struct Searched {
  TemporaryFolder folder;
  std::string out = folder.path.string() + "/out", file = folder.path.string() + "/plan.json";

  Searched() { std::ofstream(file) << plan; }
  sluice_test::Ran run(const std::string& more = "") const {
    return sluice_test::run_program("sluice-explore",
                                    "--quiet --numbers " + file + " --out " + out + " " + more + " 2>&1");
  }
};

std::size_t lines_of(const std::string& text) {
  std::size_t lines = 0;
  for (const char c : text) lines += c == '\n';
  return lines;
}

} // namespace

TEST_CASE("a search gives the same settings with any threads, and continues where it was killed" *
          sluice_test::needs_program("sluice-explore")) {
  const Searched whole;
  const sluice_test::Ran first = whole.run("--threads 1");
  INFO(first.out);
  REQUIRE(first.code == 0);
  const std::string csv = content(whole.out + "/numbers.csv"), journal = content(whole.out + "/runs.jsonl");
  // Six settings on one seed, three of them on a second, two on a third, then the test set: 6 + 3 + 2 + 2 * 4 runs.
  CHECK(lines_of(journal) == 1 + 6 + 3 + 2 + 2 * 4);
  CHECK(lines_of(csv) == 1 + 2);
  CHECK(first.out.find("chosen on (train): few; seeds 1,2,3") != std::string::npos);
  CHECK(first.out.find("never chosen on (test): few, more; seeds 11,12") != std::string::npos);

  const Searched other;
  REQUIRE(other.run("--threads 3").code == 0);
  CHECK(content(other.out + "/numbers.csv") == csv);

  // Killed while it wrote its ninth line.
  std::size_t end = 0;
  for (int line = 0; line < 8; ++line) end = journal.find('\n', end) + 1;
  std::ofstream(other.out + "/runs.jsonl", std::ios::trunc) << journal.substr(0, end + 10);
  std::filesystem::remove(other.out + "/numbers.csv");
  const sluice_test::Ran again = other.run("--threads 1");
  CHECK(again.out.find("7 runs were there already") != std::string::npos);
  CHECK(content(other.out + "/numbers.csv") == csv);
  CHECK(content(other.out + "/runs.jsonl") == journal);
}

TEST_CASE("runs on a trace are run again when the file has changed" * sluice_test::needs_program("sluice-explore")) {
  const Searched one;
  const std::string trace = one.folder.path.string() + "/trace.csv";
  std::ofstream(one.file, std::ios::trunc) << R"({
  "system": "Confluence", "numbers": {"SlackFirst.longest": [1, 16]}, "settings": 1,
  "workloads": {"it": "--trace )" << trace << R"( --kv-blocks 60 --batch 4 --slo-tbt 0.02"},
  "train": {"seeds": "1", "workloads": ["it"]}, "test": {"seeds": "2", "workloads": ["it"]}})";
  std::ofstream(trace) << "arrival,prompt,output\n0,100,20\n0.1,200,30\n0.2,100,20\n";
  const sluice_test::Ran first = one.run();
  INFO(first.out);
  REQUIRE(first.code == 0);
  constexpr std::size_t runs = 2 * (1 + 1); // settings x sets
  CHECK(lines_of(content(one.out + "/runs.jsonl")) == 1 + runs);
  REQUIRE(one.run().code == 0);
  CHECK(lines_of(content(one.out + "/runs.jsonl")) == 1 + runs);
  std::ofstream(trace, std::ios::trunc) << "arrival,prompt,output\n0,100,20\n0.1,250,30\n0.2,100,20\n";
  REQUIRE(one.run().code == 0);
  CHECK(lines_of(content(one.out + "/runs.jsonl")) == 1 + 2 * runs);
}
