// SPDX-License-Identifier: Apache-2.0
// read_orbitflow_profile: the artifact's files, and files that are wrong.
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/nlohmann/orbitflow_profile.hpp"

#include "support/shared_data.hpp"
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace sluice;

namespace {

Expected<LinearProfile> read_text(const std::string& text) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "sluice-fit-XXXXXX").string();
  const fs::path place = mkdtemp(folder.data());
  std::ofstream(place / "fit.json") << text;
  Expected<LinearProfile> profile =
      read_orbitflow_profile((place / "fit.json").string(), llama3_8b(), FlopsPerSecond{65e12});
  fs::remove_all(place);
  return profile;
}

std::string error_of(const std::string& text) {
  const Expected<LinearProfile> profile = read_text(text);
  REQUIRE_FALSE(profile);
  return profile.error().line();
}

bool has(const std::string& line, const char* piece) { return line.find(piece) != std::string::npos; }

} // namespace

TEST_CASE("fits are read by name") {
  const Expected<LinearProfile> profile = read_text(R"({"NoPrefetch": {"linear": {"A": 2e-6, "B": 0.03, "R2": 0.9}},
                                                        "Communication": {"linear": {"A": 1e-5, "B": 0.01}}})");
  REQUIRE(profile);
  CHECK(profile->decode().per_token == 2e-6);
  CHECK(profile->decode().fixed == 0.03);
  CHECK(profile->link().rate.count() == doctest::Approx(131072.0 / 1e-5));
}

TEST_CASE("a wrong fit is reported in one clear line") {
  CHECK(has(error_of(""), "fit.json"));
  CHECK(has(error_of("{}"), "NoPrefetch.linear is missing"));
  CHECK(has(error_of(R"({"NoPrefetch": {"linear": {"A": 2e-6, "B": 0.03}}})"), "Communication.linear is missing"));
  CHECK(has(error_of(R"({"NoPrefetch": {"linear": {"A": -2e-6, "B": 0.03}}})"), "A is -2e-06"));
  CHECK(has(error_of(R"({"NoPrefetch": {"linear": {"A": NaN, "B": 0.03}}})"), "fit.json:1"));
  CHECK(has(error_of(R"({"NoPrefetch": {"linear": {"A": "x", "B": 0.03}}})"), "A is"));
  CHECK(has(error_of(R"({"NoPrefetch": {"linear": {"A": 1e-6}}})"), "B is missing"));
  const Expected<LinearProfile> absent =
      read_orbitflow_profile("/no/such/file.json", llama3_8b(), FlopsPerSecond{65e12});
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == ErrorCode::not_found);
}

TEST_CASE("the artifact's profiles are all readable" *
          sluice_test::needs_shared({"data/profiles/orbitflow/profiled_results_A5000.json"})) {
  for (const char* name : {"A5000", "A6000", "A100_8B", "A6000_70B"}) {
    const std::string path =
        sluice_test::shared_path("data/profiles/orbitflow/profiled_results_" + std::string{name} + ".json");
    const bool large = std::string{name} == "A6000_70B";
    const Expected<LinearProfile> profile =
        read_orbitflow_profile(path, large ? llama3_70b() : llama3_8b(), FlopsPerSecond{65e12});
    CAPTURE(name);
    REQUIRE(profile);
    CHECK(profile->decode().fixed > 0.0);
    CHECK(profile->link().rate.count() > 1e9);
  }
}
