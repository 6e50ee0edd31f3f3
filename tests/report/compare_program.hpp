// SPDX-License-Identifier: Apache-2.0
// Starts sluice-compare for tests of its output.
#pragma once

#include "support/program.hpp"
#include "support/results.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace sluice_test::comparing {

inline doctest::skip needs_program() { return sluice_test::needs_program("sluice-compare"); }

/// Its output, including errors, without its progress.
inline Ran run(const std::string& arguments) { return run_program("sluice-compare", "--quiet " + arguments + " 2>&1"); }

/// A comparison that succeeds, and its report.json.
struct Compared : Results {
  nlohmann::json report = parsed("report.json");

  explicit Compared(const std::string& arguments) : Results("sluice-compare", "--quiet " + arguments) {}

  [[nodiscard]] const nlohmann::json& row(const std::string& name) const {
    for (const nlohmann::json& system : report.at("systems"))
      if (system.at("name") == name) return system;
    FAIL("no row of " << name);
    return report;
  }
};

} // namespace sluice_test::comparing
