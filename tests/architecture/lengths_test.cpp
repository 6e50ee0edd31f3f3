// SPDX-License-Identifier: Apache-2.0
// No policy has the permission to read lengths that engines, worlds and observers have.
#include "architecture/include_graph.hpp"
#include <doctest/doctest.h>

using namespace architecture;

TEST_CASE("policies read lengths as oracles or not at all") {
  static const std::regex outsider(R"(\b(not_a_policy|NotAPolicy)\b)");
  int policies = 0;
  for (const Header& each : read_headers("include")) {
    if (each.path.rfind("sluice/policy/", 0) != 0) continue;
    ++policies;
    CHECK_MESSAGE(!std::regex_search(code_of(each.text), outsider), each.path);
  }
  CHECK(policies > 100);
}
