// SPDX-License-Identifier: Apache-2.0
// sluice-compare --why: the times that it prints add up.
#include "report/compare_program.hpp"
#include "support/page.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

namespace sluice_test::comparing::why {

using nlohmann::json;

const std::string workload = "--generate demo:requests=12 --systems VllmSwap,OrbitFlow,DynamicHeuristic --deposit off ";

/// The numbers after a system's name, in the first such line after `title`.
std::vector<double> numbers(const std::string& text, const std::string& title, const std::string& system) {
  std::istringstream lines(text.substr(text.find(title)));
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(system + " ", 0) == 0) {
      std::istringstream cells(line.substr(system.size()));
      std::vector<double> all;
      for (std::string cell; cells >> cell;)
        all.push_back(cell[0] == '<' ? 0.05 : cell[0] == '>' ? 99.95 : std::stod(cell));
      return all;
    }
  return {};
}

TEST_CASE("--why: each system's causes sum to its requests' time, and to its missed deadlines" * needs_program()) {
  const Ran ran = run(workload + "--why");
  CAPTURE(ran.out);
  REQUIRE(ran.code == 0);
  for (const char* const system : {"VllmSwap", "OrbitFlow", "DynamicHeuristic"}) {
    CAPTURE(system);
    for (const char* const title : {"Where the requests' time went", "In what the missed deadlines passed"}) {
      std::vector<double> shares = numbers(ran.out, title, system);
      REQUIRE(shares.size() > 3);
      const double all = shares.back();
      shares.pop_back(); // the hours, or the number of missed deadlines
      double sum = 0;
      for (const double share : shares) sum += share;
      if (all > 0) CHECK(std::abs(sum - 100) < 0.1 * static_cast<double>(shares.size()));
    }
  }
}

TEST_CASE("--why ID shows a request's timeline in every system, --out a few of each system's" * needs_program()) {
  const TemporaryFolder folder;
  const Ran ran = run(workload + "--why 3 --out '" + folder.path.string() + "'");
  CAPTURE(ran.out);
  REQUIRE(ran.code == 0);
  std::size_t stories = 0;
  for (std::size_t at = ran.out.find("Request 3 ("); at != std::string::npos; at = ran.out.find("Request 3 (", at + 1))
    ++stories;
  CHECK(stories == 3);
  const json data = page_data(content(folder.path / "report.html"));
  for (const json& system : data.at("systems")) {
    const json& time = system.at("time");
    CHECK(time.at("requests").size() == 12);
    double spent = 0, drawn = 0;
    for (const json& seconds : time.at("spent")) spent += seconds.get<double>();
    for (const json& request : time.at("requests")) {
      const json& spells = request.at("spells");
      drawn += spells.back().at(2).get<double>() - spells.front().at(1).get<double>();
    }
    CHECK(drawn == doctest::Approx(spent).epsilon(1e-3)); // of twelve requests, all are drawn from start to end
  }
}

} // namespace sluice_test::comparing::why
