// SPDX-License-Identifier: Apache-2.0
// Every published system, and every system that sluice-compare runs, has conservation trials.
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/engine/systems/vllm.hpp"

#include "../../examples/tools/engines/variants.hpp"
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
using namespace engines;
namespace fs = std::filesystem;

SLUICE_CONSERVES(OrbitFlowSrtf)
SLUICE_CONSERVES(OrbitFlowPauseShortest)
SLUICE_CONSERVES(OrbitFlowPauseRandom)
SLUICE_CONSERVES(OrbitFlowEven)
SLUICE_CONSERVES(FlexGenFixed)
SLUICE_CONSERVES(VllmPrefillFirst)
SLUICE_CONSERVES(MiragePrefillFirst)
SLUICE_CONSERVES(VllmPrefixCaching)
SLUICE_CONSERVES(Lmcache)
SLUICE_CONSERVES(HiCache)
SLUICE_CONSERVES(HiCacheIfFaster)
SLUICE_CONSERVES(HiCacheWithinSlos)
SLUICE_CONSERVES(VllmOffload)
SLUICE_CONSERVES(HiCacheBack)
SLUICE_CONSERVES(Kvbm)
SLUICE_CONSERVES(MooncakeStore)
SLUICE_CONSERVES(Cake)
SLUICE_CONSERVES(OrbitFlowCached)
SLUICE_CONSERVES(CachedAttention)
SLUICE_CONSERVES(AdaptiveOffload)
SLUICE_CONSERVES(Continuum)
SLUICE_CONSERVES(InferCept)
SLUICE_CONSERVES(KvFlow)
SLUICE_CONSERVES(HiCacheHints)

std::string read(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The first group of every match of a pattern at the beginning of a line.
void collect(const std::string& text, const std::string& pattern, std::set<std::string>& into) {
  const std::regex regex("(^|\n)" + pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) into.insert((*it)[2]);
}

template <class Visit>
void for_each_file(const fs::path& folder, const std::string& ending, Visit&& visit) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().filename().string().ends_with(ending)) visit(read(entry.path()));
}

void check_all_in(const std::set<std::string>& named, const std::set<std::string>& tried) {
  for (const std::string& name : named)
    CHECK_MESSAGE(tried.count(name) == 1, name, " has no conservation trials: give it a SLUICE_CONSERVES");
}

} // namespace

TEST_CASE("every system of sluice-compare and of include/sluice/engine/systems has its trials") {
  std::set<std::string> tried, compared, published;
  for_each_file("tests", "_test.cpp",
                [&](const std::string& text) { collect(text, "SLUICE_CONSERVES\\((\\w+)\\)", tried); });
  std::set<std::string> rows; // rows of the registry: some only give a system's engine another name or another rule
  for_each_file("examples/tools/engines/families", ".cpp", [&](const std::string& text) {
    collect(text, "[^\n]*entry<(?:sluice::)?(\\w+)", compared);
    collect(text, "[^\n]*entry<[^;]*?>\\(\\s*\"(\\w+)\"", rows);
  });
  for_each_file("include/sluice/engine/systems", ".hpp",
                [&](const std::string& text) { collect(text, "using (\\w+)", published); });

  // Each list exists and has the expected content.
  CHECK(compared.count("Ellm") == 1);
  CHECK(compared.count("OrbitFlowEven") == 1);
  CHECK(rows.count("SwappedFirst") == 1);
  CHECK(rows.size() > compared.size());
  CHECK(published.count("EllmSlsqp") == 1);
  check_all_in(compared, tried);
  check_all_in(rows, tried);
  check_all_in(published, tried);
}

TEST_CASE("every system of sluice-compare that serves tenants has its trials in a node") {
  std::set<std::string> tried, served;
  for_each_file("tests", "_test.cpp",
                [&](const std::string& text) { collect(text, "SLUICE_NODE_CONSERVES\\((\\w+, \\w+)\\)", tried); });
  const std::regex line("tenants_entry<sluice::(\\w+), sluice::(\\w+)>");
  for_each_file("examples/tools/engines/families", ".cpp", [&](const std::string& text) {
    for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it)
      served.insert(std::string{(*it)[1]} + ", " + std::string{(*it)[2]});
  });
  CHECK(served.count("SelectN, BusCoordinator") == 1);
  check_all_in(served, tried);
}
