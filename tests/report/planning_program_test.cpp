// SPDX-License-Identifier: Apache-2.0
// What planning is charged, in tables and reports.
#include "report/compare_program.hpp"
#include <doctest/doctest.h>

#include <string>

namespace sluice_test::planning {

const std::string note = "its placement says no effort: planning is charged what its judgements of plans take";

TEST_CASE("planning: an own engine that says no effort is charged by its judgements, and tables say so" *
          needs_program("sluice-deadlines")) {
  const Results of("sluice-deadlines", "--quiet --generate demo:requests=8 --systems Silent,OrbitFlow --deposit off");
  CHECK(of.printed.find(note + " (Silent)") != std::string::npos);
  CHECK(of.text("report.html").find(note) != std::string::npos);
  const nlohmann::json report = of.parsed("report.json");
  for (const nlohmann::json& row : report.at("systems")) {
    const bool silent = row.at("name") == "Silent";
    CHECK(row.at("note") == (silent ? note : ""));
    if (silent) CHECK(row.at("planning_s") > 0);
  }
}

TEST_CASE("planning: every published system says its effort" * needs_program("sluice-compare")) {
  const Results of("sluice-compare", "--quiet --generate demo:requests=4 --deposit off --no-traces");
  CHECK(of.printed.find("says no effort") == std::string::npos);
}

} // namespace sluice_test::planning
