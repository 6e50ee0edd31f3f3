// SPDX-License-Identifier: Apache-2.0
// skew.csv of sluice-profile: the shares of a device whose times are known.
#include "sluice/policy/cost/read_served_tables.hpp"

#include "../../../examples/tools/profile/unequal.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace {

using sluice::TimedBatch;

const std::vector<int> contexts{15, 63, 255, 1023};

/// A device on which each of `lanes` equal groups of decodes takes the sum of its own tokens, and the longest group
/// determines the batch: one lane computes one after another, many end with the longest.
double seconds_of(const TimedBatch& batch, int lanes) {
  std::vector<double> ends(static_cast<std::size_t>(lanes));
  for (int i = 0; i < batch.decodes; ++i)
    ends[static_cast<std::size_t>(i % lanes)] += static_cast<double>(batch.context_of(i));
  return 5e-6 + 1e-9 * *std::max_element(ends.begin(), ends.end());
}

sluice::SkewTable table_of(const std::string& text) {
  const sluice::Expected<sluice::SkewTable> table =
      sluice::read_skew_table(sluice::LineReader{std::make_unique<std::istringstream>(text), "skew.csv"});
  REQUIRE_MESSAGE(table.has_value(), table.error().line());
  return *table;
}

/// The extra time of 16 decodes, one of them long, by a skew.csv of a device with so many lanes.
double extra(int lanes) {
  const sluice::SkewTable table = table_of(
      profiled::skew_csv(profiled::unequal_batches(16, contexts),
                         [&](const TimedBatch& batch) -> std::optional<double> { return seconds_of(batch, lanes); }));
  std::vector<sluice::Tokens> lengths(16, sluice::Tokens{16}); // with the fresh token
  lengths.front() = sluice::Tokens{1024};
  sluice::Work work;
  work.decodes = work.samples = 16;
  for (const sluice::Tokens length : lengths) work.decode_context += length;
  work.contexts = lengths;
  return table.seconds(
      work, [&](double context) { return seconds_of({.decodes = 16, .context = static_cast<int>(context)}, lanes); });
}

} // namespace

TEST_CASE("unequal decodes: one is the longest of the grid, the others are shorter") {
  const std::vector<TimedBatch> batches = profiled::unequal_batches(16, contexts);
  REQUIRE(batches.size() == 4);
  for (const TimedBatch& batch : batches) {
    CHECK(batch.context_of(0) == 1023);
    CHECK(batch.context_of(1) < 1023);
    CHECK(batch.longest_sequence() == 1024);
  }
  CHECK(profiled::mean_context(batches.front()) == (1023 + 15 * 15) / 16);
  CHECK(profiled::unequal_batches(4, {3, 20}).size() == 2); // no batch of equal decodes
}

TEST_CASE("a device that computes one sequence after another has no skew, and one that ends with the longest has") {
  CHECK(std::abs(extra(1)) < 0.02e-6);
  // 16 lanes: the longest decode takes 1,023 ns; 16 of the mean length take 78.
  CHECK(extra(16) == doctest::Approx((1023 - 78) * 1e-9).epsilon(0.02));
}

TEST_CASE("skew.csv has no share where the mean's and the longest's times are the same, and no file without one") {
  const std::vector<TimedBatch> batches = profiled::unequal_batches(16, contexts);
  const auto constant = [](const TimedBatch&) -> std::optional<double> { return 1e-3; };
  CHECK(profiled::skew_csv(batches, constant).empty());
  const auto nothing = [](const TimedBatch&) -> std::optional<double> { return std::nullopt; };
  CHECK(profiled::skew_csv(batches, nothing).empty());
  // Only the batches with short decodes were measured, so two rows of four.
  const std::string some = profiled::skew_csv(batches, [](const TimedBatch& batch) -> std::optional<double> {
    if (batch.longest > 0 && batch.context > 15) return std::nullopt;
    return seconds_of(batch, 1);
  });
  CHECK(std::count(some.begin(), some.end(), '\n') == 3);
}
