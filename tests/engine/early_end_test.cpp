// SPDX-License-Identifier: Apache-2.0
// A request that its backend ends early gets that iteration's token, and no other request ends with it.
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/engine/systems/ellm.hpp"
#include "sluice/engine/systems/hcache.hpp"
#include "sluice/engine/systems/neo.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/pie.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/engine/with.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/admission/future_memory.hpp"
#include "sluice/policy/admission/narrowed.hpp"
#include "sluice/policy/admission/shortest_first.hpp"
#include "sluice/policy/admission/shortest_remaining_first.hpp"
#include "sluice/report/observer/measure.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using sluice::testing::SmallCost;

namespace {

/// Ends, or fails, every request at its token number `tokens`, even if that is its length.
struct EndsAfter : BasicSimulated<SmallCost> {
  static constexpr bool ends_requests = true;
  std::int64_t tokens;
  bool fails = false;
  std::vector<RequestOutcome> ended;

  EndsAfter(SmallCost cost, std::int64_t after) : BasicSimulated<SmallCost>(cost), tokens(after) {}

  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    ended.clear();
    for (const Claim& claim : iteration.batch)
      if (iteration.view.row(claim.slot).generated.count() + 1 == tokens) ended.push_back({claim.slot, fails, {}});
    return BasicSimulated<SmallCost>::wait<Transfer>(iteration, state);
  }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const { return ended; }
};

/// The number of iterations of two requests in the same slot, one after the other; `wanted` are their lengths.
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

/// The same for requests of unknown length: `wanted` are bounds.
template <class Admit>
auto bounded(std::int64_t ends_after, std::vector<std::int64_t> bounds) {
  using E = Engine<Admit, SmallCost, EndsAfter, Summary>;
  auto engine = E::make({.limits = {.batch = 4},
                         .geometry = {2, Bytes{4096}, Bytes{1 << 20}},
                         .device_blocks = LayerBlocks{1000},
                         .host_blocks = LayerBlocks{0},
                         .cost = SmallCost{},
                         .backend = EndsAfter{SmallCost{}, ends_after}});
  REQUIRE(engine.has_value());
  for (const std::int64_t bound : bounds) {
    RequestSpec spec{.prompt = Tokens{8}, .output = Tokens{bound}, .slo = {.tbt = Seconds{1}}};
    spec.output_is_bound = true;
    const auto id = engine->submit(spec);
    if (!id) CHECK(id.error().line().find("its output is a bound") != std::string::npos);
    while (engine->step() == Stepped::ran) {
    }
  }
  return std::pair{measure(engine->template observed<Summary>(), engine->now() + Seconds{100}), engine->steps()};
}

static_assert(ServesBounds<Engine<>> && ServesBounds<Engine<FitsFutureMemory>>);
static_assert(!ServesBounds<Engine<ShortestKnownFirst>> && !ServesBounds<Engine<ShortestRankedFirst>>);
static_assert(!ServesBounds<Engine<ShortestRemainingFirst>> && !ServesBounds<Engine<Narrowed<ShortestKnownFirst, 1>>>);

} // namespace

TEST_CASE("if the output is a bound, a request that ends earlier counts as served and gets no further token") {
  const auto [metrics, steps] = bounded<Fcfs>(3, {10, 2, 100});
  CHECK(steps == 3 + 2 + 3);
  CHECK(metrics.served == 3);
  CHECK(metrics.tokens_delivered == 8);
  CHECK(metrics.tokens_late == 0);
  CHECK(metrics.deadlines_missed == 0);
  CHECK(metrics.tpot_attainment == 1);
}

TEST_CASE("an engine that uses lengths refuses a request without one") {
  const auto [metrics, steps] = bounded<ShortestKnownFirst>(3, {10, 2});
  CHECK(steps == 0);
  CHECK(metrics.refused == 2);
}

TEST_CASE("the engine learns the generated length of requests whose output is a bound") {
  using E = Engine<FitsFutureMemory, SmallCost, EndsAfter>;
  auto engine = E::make({.limits = {.batch = 4},
                         .geometry = {2, Bytes{4096}, Bytes{1 << 20}},
                         .device_blocks = LayerBlocks{1000},
                         .host_blocks = LayerBlocks{0},
                         .cost = SmallCost{},
                         .backend = EndsAfter{SmallCost{}, 12}});
  REQUIRE(engine.has_value());
  for (const std::int64_t bound : {500, 5, 500}) {
    RequestSpec spec{.prompt = Tokens{8}, .output = Tokens{bound}, .slo = {.tbt = Seconds{1}}};
    spec.output_is_bound = true;
    REQUIRE(engine->submit(spec));
    REQUIRE(
        engine->submit({.prompt = Tokens{8}, .output = Tokens{7}, .slo = {}})); // it is cancelled: nothing is learned
    engine->step();
    CHECK(engine->cancel(RequestId{static_cast<std::uint32_t>(2 * engine->view().finished + 1)}).ok());
    while (engine->step() == Stepped::ran) {
    }
  }
  const auto longer = [&](std::int64_t than) { return engine->view().lengths->longer_than(Tokens{than}).size(); };
  CHECK(engine->view().lengths->known() == 3);
  CHECK(std::vector{longer(4), longer(5), longer(11), longer(12)} == std::vector<std::size_t>{3, 2, 2, 0});
}

TEST_CASE("a request ends when its backend says so, before its length") {
  CHECK(iterations(3, {10, 10}) == std::vector<std::int64_t>{3, 3});
}

TEST_CASE("an early end at the request's own length does not end the next request in its slot") {
  CHECK(iterations(5, {5, 4, 5}) == std::vector<std::int64_t>{5, 4, 5});
}

TEST_CASE("a request that fails in a steady step leaves its memory to a waiting one") {
  EndsAfter backend{SmallCost{}, 5};
  backend.fails = true;
  using E = Engine<SmallCost, EndsAfter, Summary>;
  auto engine = E::make({.limits = {.batch = 1},
                         .geometry = {2, Bytes{4096}, Bytes{1 << 20}},
                         .device_blocks = LayerBlocks{1000},
                         .host_blocks = LayerBlocks{0},
                         .cost = SmallCost{},
                         .backend = backend});
  REQUIRE(engine.has_value());
  for (const std::int64_t tokens : {10, 4}) // the second one waits, and ends before it could fail
    REQUIRE(engine->submit({.prompt = Tokens{8}, .output = Tokens{tokens}, .slo = {}}));
  for (int step = 0; step < 20 && engine->alive() > 0; ++step) engine->step();
  CHECK(engine->alive() == 0);
  const Metrics metrics = measure(engine->observed<Summary>(), engine->now());
  CHECK(metrics.refused == 1);
  CHECK(metrics.served == 1);
  CHECK(engine->steps() == 5 + 4);
}

namespace {

/// Loses KV because there is no room: of every `every`-th request that its batches name, or, `together`, of all
/// requests in every `every`-th iteration.
struct LosesKv : BasicSimulated<SmallCost> {
  static constexpr bool ends_requests = true;
  int every = 1;
  bool together = false;
  int seen = 0;
  std::int64_t all_lost = 0;
  std::vector<RequestOutcome> lost;

  LosesKv(SmallCost cost, int each, bool whole_batches = false)
      : BasicSimulated<SmallCost>(cost), every(each), together(whole_batches) {}

  template <class Transfer>
  IterationCost wait(const Iteration& iteration, typename Transfer::State& state) {
    lost.clear();
    if (together) ++seen;
    for (const Claim& claim : iteration.batch)
      if ((together ? seen : ++seen) % every == 0) lost.push_back({claim.slot, true, "no room", true});
    all_lost += static_cast<std::int64_t>(lost.size());
    return BasicSimulated<SmallCost>::wait<Transfer>(iteration, state);
  }
  [[nodiscard]] std::span<const RequestOutcome> outcomes() const { return lost; }
};

struct ServedTrial {
  std::int64_t served = 0, refused = 0, tokens = 0, lost = 0;
};
template <class System>
ServedTrial served(const testing::Trial& trial, const LosesKv& machine) {
  using E = With<System, SmallCost, LosesKv, Summary>;
  auto engine = E::make({.limits = {.batch = trial.batch, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
                         .geometry = {trial.layers, Bytes{4096}, Bytes{1 << 20}, Bytes{3000}},
                         .device_blocks = trial.device,
                         .host_blocks = trial.host,
                         .cost = SmallCost{},
                         .backend = machine});
  REQUIRE(engine.has_value());
  testing::serve_to_end(*engine, trial);
  CHECK(engine->ledger().device().used() == LayerBlocks{0});
  CHECK(engine->ledger().host().used() == LayerBlocks{0});
  const Metrics metrics = measure(engine->template observed<Summary>(), engine->now());
  return {metrics.served, metrics.refused, metrics.tokens_delivered, engine->backend().all_lost};
}

/// Serves random trials on a machine that loses KV, and checks that nobody gets less than on one that does not.
template <class System>
void check_recomputed(int every) {
  Random random(41);
  std::int64_t lost = 0;
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    testing::Trial trial = testing::random_trial(random);
    trial.host = LayerBlocks{100000};
    const ServedTrial whole = served<System>(trial, {SmallCost{}, 1 << 30});
    for (const bool together : {false, true}) {
      CAPTURE(together);
      const ServedTrial disturbed = served<System>(trial, {SmallCost{}, every, together});
      CHECK(disturbed.served == whole.served);
      CHECK(disturbed.refused == whole.refused);
      CHECK(disturbed.tokens == whole.tokens);
      lost += disturbed.lost;
    }
  }
  CHECK(lost > 100);
}

} // namespace

TEST_CASE("a request that the machine has no room for is preempted and computed again") {
  check_recomputed<VllmSwap>(7);
  check_recomputed<OrbitFlow>(7);
  check_recomputed<With<OrbitFlow, InStep>>(11);
  check_recomputed<Confluence>(5);
  check_recomputed<Pie>(7);
  check_recomputed<Ellm>(9);
  check_recomputed<HCache>(7);
  check_recomputed<Neo>(7);
}

TEST_CASE("requests that lose their KV together, without end, fail after a hundred times; one alone after three") {
  using E = With<VllmSwap, SmallCost, LosesKv, Summary>;
  auto engine = E::make({.limits = {.batch = 4},
                         .geometry = {2, Bytes{4096}, Bytes{1 << 20}},
                         .device_blocks = LayerBlocks{1000},
                         .host_blocks = LayerBlocks{0},
                         .cost = SmallCost{},
                         .backend = LosesKv{SmallCost{}, 1}});
  REQUIRE(engine.has_value());
  REQUIRE(engine->submit({.prompt = Tokens{8}, .output = Tokens{5}, .slo = {}}));
  int steps = 0;
  while (engine->step() != Stepped::idle && steps < 100) ++steps;
  CHECK(engine->alive() == 0);
  CHECK(engine->steps() == 3);
  for (int i = 0; i < 2; ++i) REQUIRE(engine->submit({.prompt = Tokens{8}, .output = Tokens{5}, .slo = {}}));
  while (engine->step() != Stepped::idle && steps < 1000) ++steps;
  CHECK(engine->alive() == 0);
  CHECK(engine->steps() == 3 + 100);
  CHECK(measure(engine->template observed<Summary>(), engine->now()).refused == 3);
}
