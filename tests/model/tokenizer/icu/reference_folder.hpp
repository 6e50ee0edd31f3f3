// SPDX-License-Identifier: Apache-2.0
// The folder with small tokenizers of every family, and the reference's results for them.
#pragma once

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>

namespace sluice::testing {

inline const std::string reference_folder = "tests/reference/tokenizers/";

inline nlohmann::json parsed(const std::string& name) {
  std::ifstream file(reference_folder + name);
  REQUIRE_MESSAGE(file.good(), name);
  return nlohmann::json::parse(file);
}

} // namespace sluice::testing
