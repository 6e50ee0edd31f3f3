// SPDX-License-Identifier: Apache-2.0
// Results: the files that a program writes to a folder of --out, and its output.
#pragma once

#include "report/read_csv.hpp"
#include "support/program.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace sluice_test {

using Table = std::vector<std::map<std::string, std::string>>;

/// A run into a fresh folder, which must succeed.
struct Results {
  TemporaryFolder folder;
  std::string printed;

  Results(const std::string& program, const std::string& arguments) {
    const Ran ran = run_program(program, arguments + " --out '" + folder.path.string() + "'");
    INFO(arguments);
    INFO(ran.out);
    REQUIRE(ran.code == 0);
    printed = ran.out;
  }
  [[nodiscard]] std::string text(const std::string& name) const { return content(folder.path / name); }
  [[nodiscard]] Table table(const std::string& name) const { return read_csv(text(name + ".csv")); }
  [[nodiscard]] nlohmann::json parsed(const std::string& name) const { return nlohmann::json::parse(text(name)); }
};

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

/// A cell's number; 0 if it is empty.
inline double number(const std::string& cell) { return cell.empty() ? 0 : std::strtod(cell.c_str(), nullptr); }

} // namespace sluice_test
