// SPDX-License-Identifier: Apache-2.0
// sluice-plan: the problems of docs/planner.md have the printed answers, and --example is one of them.
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

using sluice_test::run_program;
using Json = nlohmann::json;

namespace {

doctest::skip needs_program() { return sluice_test::needs_program("sluice-plan"); }

/// The page's fenced blocks of this kind, in order.
std::vector<std::string> blocks(const std::string& page, const std::string& kind) {
  std::vector<std::string> all;
  const std::string fence = "\n```json " + kind + "\n";
  for (std::size_t at = page.find(fence); at != std::string::npos; at = page.find(fence, at + 1)) {
    const std::size_t begin = at + fence.size();
    all.push_back(page.substr(begin, page.find("\n```", begin) + 1 - begin));
  }
  return all;
}

/// Compares numbers to 1e-9: a sum of seconds may differ between compilers in its last bits.
void check_same(const Json& shown, const Json& got) {
  if (shown.is_number_float())
    CHECK(got.get<double>() == doctest::Approx(shown.get<double>()).epsilon(1e-9));
  else
    CHECK(got == shown);
}

Json solve(const std::string& problem) {
  const sluice_test::TemporaryFolder folder;
  const std::string file = (folder.path / "problem.json").string();
  std::ofstream(file) << problem;
  const sluice_test::Ran ran = run_program("sluice-plan", "'" + file + "'");
  CHECK(ran.code == 0);
  return Json::parse(ran.out);
}

} // namespace

TEST_CASE("the problems of docs/planner.md have the answers printed there" * needs_program()) {
  const std::string page = sluice_test::content("docs/planner.md");
  const std::vector<std::string> problems = blocks(page, "problem"), answers = blocks(page, "answer");
  REQUIRE(problems.size() >= 2);
  REQUIRE(problems.size() == answers.size());
  for (std::size_t i = 0; i < problems.size(); ++i) {
    CAPTURE(problems[i]);
    const Json got = solve(problems[i]);
    const Json shown = Json::parse(answers[i]);
    for (auto field = shown.begin(); field != shown.end(); ++field) {
      CAPTURE(field.key());
      REQUIRE(got.contains(field.key()));
      check_same(*field, got[field.key()]);
    }
  }
}

TEST_CASE("--example writes the problem of docs/planner.md, which is solved and explained" * needs_program()) {
  const std::string page = sluice_test::content("docs/planner.md");
  const sluice_test::Ran example = run_program("sluice-plan", "--example");
  CHECK(example.code == 0);
  CHECK(example.out == blocks(page, "problem").at(0));
  const std::string plan = "'" + sluice_test::program_path("sluice-plan").string() + "'";
  const sluice_test::Ran explained = run_program("sluice-plan", "--example | " + plan + " --explain");
  CHECK(explained.code == 0);
  CHECK(explained.out.find("binds ") != std::string::npos);
}

TEST_CASE("sluice-plan --help names exactly the fields of a problem" * needs_program()) {
  const std::string help = run_program("sluice-plan", "--help").out;
  const std::string page = sluice_test::content("docs/planner.md");
  // The reader's answer to an unknown name.
  const sluice_test::Ran refused = run_program("sluice-plan", "2>&1", "echo '{\"layer\": 1}' | ");
  CHECK(refused.code == 2);
  const std::string before = "expected one of ";
  REQUIRE(refused.out.find(before) != std::string::npos);
  std::string names = refused.out.substr(refused.out.find(before) + before.size());
  std::size_t fields = 0;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = std::min(names.find_first_of(",\n", begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    begin = end + 2;
    CAPTURE(name);
    CHECK(help.find(name) != std::string::npos);
    CHECK(page.find("`" + name + "`") != std::string::npos);
    ++fields;
  }
  CHECK(fields >= 20);
}
