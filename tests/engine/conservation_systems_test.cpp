// SPDX-License-Identifier: Apache-2.0
// Every system that there is, and every one that sluice-compare runs, is held to what every engine owes.
#include "sluice/systems/vllm.hpp"

#include "../../examples/tools/compare/variants.hpp"
#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

using namespace sluice;
using namespace compared;
namespace fs = std::filesystem;

SLUICE_CONSERVES(OrbitFlowSrtf)
SLUICE_CONSERVES(OrbitFlowPauseShortest)
SLUICE_CONSERVES(OrbitFlowPauseRandom)
SLUICE_CONSERVES(OrbitFlowEven)
SLUICE_CONSERVES(VllmPrefixCaching)

std::string read(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The first group of every match, of a pattern that begins at the beginning of a line.
void collect(const std::string& text, const std::string& pattern, std::set<std::string>& into) {
  const std::regex regex("(^|\n)" + pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) into.insert((*it)[2]);
}

template <class Visit>
void for_each_file(const fs::path& folder, const std::string& ending, Visit&& visit) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().filename().string().ends_with(ending)) visit(read(entry.path()));
}

/// The words between `set(name` and its parenthesis.
std::string cmake_list(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find("set(" + name);
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find(')', begin) - begin);
}

void check_all_in(const std::set<std::string>& named, const std::set<std::string>& tried) {
  for (const std::string& name : named)
    CHECK_MESSAGE(tried.count(name) == 1, name, " is held to nothing: give it a SLUICE_CONSERVES");
}

} // namespace

TEST_CASE("every system of sluice-compare and of include/sluice/systems has its trials") {
  std::set<std::string> tried, compared, published, variants;
  for_each_file("tests", "_test.cpp",
                [&](const std::string& text) { collect(text, "SLUICE_CONSERVES\\((\\w+)\\)", tried); });
  const std::string cmake = read("examples/tools/shared/systems.cmake");
  collect(cmake_list(cmake, "compared_systems"), " +(\\w+)=", compared);
  std::istringstream words(cmake_list(cmake, "compared_variants"));
  words.ignore(static_cast<std::streamsize>(std::string{"set(compared_variants"}.size()));
  for (std::string name; words >> name;) variants.insert(name);
  std::set<std::string> rows; // of sluice-compare's table: another name, or another rule, of a system's engine
  collect(cmake_list(cmake, "compared_systems"), " +(\\w+)[=:]", rows);
  rows.insert(variants.begin(), variants.end());
  for_each_file("include/sluice/systems", ".hpp",
                [&](const std::string& text) { collect(text, "using (\\w+)", published); });

  // Each list is there, and is what it seems.
  CHECK(compared.count("Ellm") == 1);
  CHECK(variants.count("OrbitFlowEven") == 1);
  CHECK(rows.size() > compared.size() + variants.size());
  CHECK(published.count("EllmSlsqp") == 1);
  check_all_in(compared, tried);
  check_all_in(variants, tried);
  check_all_in(rows, tried);
  check_all_in(published, tried);
}

TEST_CASE("every system of sluice-compare that serves tenants has its trials in a node") {
  std::set<std::string> tried, served;
  for_each_file("tests", "_test.cpp",
                [&](const std::string& text) { collect(text, "SLUICE_NODE_CONSERVES\\((\\w+, \\w+)\\)", tried); });
  const std::string cmake = read("examples/tools/shared/systems.cmake");
  const std::regex line("\nset\\(tenants_(\\w+) (\\w+)\\)");
  for (std::sregex_iterator it(cmake.begin(), cmake.end(), line), end; it != end; ++it)
    served.insert(std::string{(*it)[1]} + ", " + std::string{(*it)[2]});
  CHECK(served.count("SelectN, BusCoordinator") == 1);
  check_all_in(served, tried);
}
