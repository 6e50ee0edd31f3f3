// SPDX-License-Identifier: Apache-2.0
// A bundle of kernel times: the input is its three files, one after the other, separated by a line "---".
#include "sluice/policy/cost/read_table_profile.hpp"

#include "fuzz/fuzz_support.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>
#include <string>

SLUICE_FUZZ_TARGET(table_profile) {
  std::string rest{sluice_test::text_of(data, size)};
  const auto next_file = [&rest](const char* name) {
    const std::size_t end = std::min(rest.find("---\n"), rest.size());
    auto file = std::make_unique<std::istringstream>(rest.substr(0, end));
    rest.erase(0, std::min(end + 4, rest.size()));
    return sluice::Expected<sluice::LineReader>{sluice::LineReader{std::move(file), name}};
  };
  auto dense = next_file("dense.csv");
  auto per_sequence = next_file("per_sequence.csv");
  auto attention = next_file("attention.csv");
  const auto profile = sluice::read_table_profile(std::move(dense), std::move(per_sequence), std::move(attention), {});
  if (!profile) {
    sluice_test::require_one_line(profile.error());
    return 0;
  }
  sluice::Work work;
  work.decodes = work.samples = 3;
  work.decode_context = sluice::Tokens{1000};
  const double seconds = profile->step(work).total(32).count();
  sluice_test::require(seconds > 0 && seconds < 1e9, "a profile that was read predicts a time");
  return 0;
}
