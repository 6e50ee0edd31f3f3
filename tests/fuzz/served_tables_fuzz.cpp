// SPDX-License-Identifier: Apache-2.0
// The tables beside a bundle's kernels: the input is skew.csv, moe.csv and step.csv, separated by a line "---".
#include "sluice/policy/cost/read_served_tables.hpp"

#include "fuzz/fuzz_support.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>
#include <string>

SLUICE_FUZZ_TARGET(served_tables) {
  std::string rest{sluice_test::text_of(data, size)};
  const auto next_file = [&rest](const char* name) {
    const std::size_t end = std::min(rest.find("---\n"), rest.size());
    auto file = std::make_unique<std::istringstream>(rest.substr(0, end));
    rest.erase(0, std::min(end + 4, rest.size()));
    return sluice::Expected<sluice::LineReader>{sluice::LineReader{std::move(file), name}};
  };
  if (const auto skew = sluice::read_skew_table(next_file("skew.csv")); !skew)
    sluice_test::require_one_line(skew.error());
  else
    sluice_test::require(std::isfinite(skew->at(16, 8, 0.5)), "a table that was read has a share");
  if (const auto moe = sluice::read_expert_table(next_file("moe.csv"), {128, 64, 8}); !moe)
    sluice_test::require_one_line(moe.error());
  else
    sluice_test::require(moe->seconds(32) > 0, "experts take time");
  if (const auto step = sluice::read_graph_saving(next_file("step.csv")); !step)
    sluice_test::require_one_line(step.error());
  return 0;
}
