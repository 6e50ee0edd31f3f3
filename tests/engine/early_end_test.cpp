// SPDX-License-Identifier: Apache-2.0
// A request that its backend ends early gets the token of that iteration, and nobody else is ended by it.
#include "sluice/engine/engine.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

using namespace sluice;
using sluice::testing::SmallCost;

namespace {

/// Says of every request that this token is its last once it has generated so many: also where its length says the
/// same.
struct EndsAfter : BasicSimulated<SmallCost> {
  static constexpr bool ends_requests = true;
  std::int64_t tokens;
  std::vector<RequestOutcome> ended;

  EndsAfter(SmallCost cost, std::int64_t after) : BasicSimulated<SmallCost>(cost), tokens(after) {}

  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    ended.clear();
    for (const Claim& claim : iteration.batch)
      if (iteration.view.row(claim.slot).generated.count() + 1 == tokens) ended.push_back({claim.slot, false, {}});
    return BasicSimulated<SmallCost>::wait<Transfer>(iteration, state);
  }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const { return ended; }
};

/// Iterations that two requests take, one after the other in the same slot, that want so many tokens each.
std::vector<std::int64_t> iterations(std::int64_t ends_after, std::vector<std::int64_t> wanted) {
  using E = Engine<SmallCost, EndsAfter>;
  auto engine = E::make({.limits = {.batch = 4},
                         .geometry = {2, Bytes{4096}, Bytes{1 << 20}},
                         .device_blocks = LayerBlocks{1000},
                         .host_blocks = LayerBlocks{0},
                         .cost = SmallCost{},
                         .backend = EndsAfter{SmallCost{}, ends_after}});
  REQUIRE(engine.has_value());
  std::vector<std::int64_t> steps;
  for (const std::int64_t tokens : wanted) {
    REQUIRE(engine->submit({.prompt = Tokens{8}, .output = Tokens{tokens}, .slo = {}}));
    const std::int64_t before = engine->steps();
    while (engine->step() == Stepped::ran) {
    }
    CHECK(engine->alive() == 0);
    steps.push_back(engine->steps() - before);
  }
  return steps;
}

} // namespace

TEST_CASE("a request ends where its backend says, before its length") {
  CHECK(iterations(3, {10, 10}) == std::vector<std::int64_t>{3, 3});
}

TEST_CASE("an end that its length says as well is used up: the next request in its slot is not ended by it") {
  CHECK(iterations(5, {5, 4, 5}) == std::vector<std::int64_t>{5, 4, 5});
}
