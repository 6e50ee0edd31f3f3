// SPDX-License-Identifier: Apache-2.0
// Shared beginnings under pressure: whatever a decision preempts, the blocks that its claims rely on are there.
#include "sluice/engine/systems/fastserve.hpp"
#include "sluice/engine/systems/other_admissions.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/engine/systems/scorpio.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/retention/keep_by_hints.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"

#include "engine/restless.hpp"
#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace {
using namespace sluice;
using testing::Trial;

/// Prompts with one of three beginnings, of any length; by priority, with few requests in a batch and little memory.
std::vector<std::vector<BlockKey>> beginnings(const Trial& trial, Random& random) {
  std::vector<std::vector<BlockKey>> all;
  for (std::size_t i = 0; i < trial.requests.size(); ++i) {
    const std::uint64_t topic = random.below(3);
    const auto common = static_cast<std::int64_t>(random.below(8));
    std::vector<BlockKey>& keys = all.emplace_back();
    for (std::int64_t block = 0; block < trial.requests[i].prompt.count() / 16; ++block)
      keys.push_back(next_key(keys.empty() ? BlockKey{} : keys.back(), block < common ? topic : 100 + i));
  }
  return all;
}

/// Serves random trials to their end, or for 2,000 steps where requests take `turns`: those whose quantum is shorter
/// than what they lose with it compute the same again for ever. Returns how many requests were preempted.
template <class System>
std::int64_t serve_beginnings(int rounds, std::uint64_t seed, testing::KvOf kv, bool turns = false) {
  using E = With<System, testing::SmallCost, BasicSimulated<testing::SmallCost>, testing::Audit>;
  Random random(seed);
  std::int64_t preempted = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Trial trial = testing::random_trial(random);
    trial.device = LayerBlocks{trial.layers * static_cast<std::int64_t>(8 + random.below(14))};
    if (kv == testing::KvOf::groups) trial = testing::in_groups(std::move(trial), random);
    const double hurry = 0.05 + 0.5 * random.uniform();
    for (RequestSpec& spec : trial.requests) spec.arrival = spec.arrival * hurry;
    const std::vector<std::vector<BlockKey>> keys = beginnings(trial, random);
    Bytes weights{1 << 20};
    testing::SmallCost world;
    if constexpr (testing::streams_weights<E>) {
      world.rate = BytesPerSecond{1e6 * std::pow(1000, random.uniform())};
      weights = testing::streamed_weights(trial, random);
    }
    auto made = E::make(testing::trial_config<E>(trial, world, weights, world));
    REQUIRE(made.has_value());
    E& engine = *made;
    const LayerBlocks memory = engine.ledger().device().capacity();
    std::size_t next = 0;
    for (int guard = 0; guard < (turns ? 2000 : 20'000); ++guard) {
      for (; next < keys.size() && trial.requests[next].arrival <= engine.now(); ++next)
        (void)engine.submit(trial.requests[next], keys[next]);
      const Stepped stepped = engine.step();
      if (stepped == Stepped::failed) FAIL(engine.status().error().line());
      if (stepped == Stepped::idle) {
        const Seconds until = testing::next_event(engine, trial, next);
        if (until == never_due) break;
        engine.idle_until(until);
      }
      LayerBlocks counted = engine.pinned();
      const View view = engine.view();
      for (const Slot slot : view.running) counted += testing::held_by<E>(view, view.row(slot)).device;
      for (const Slot slot : view.preempted) counted += testing::held_by<E>(view, view.row(slot)).device;
      CHECK(counted == engine.ledger().device().used());
      if (!testing::streams_weights<E>) CHECK(engine.ledger().device().free() <= memory);
      if (round % 3 == 2 && random.below(8) == 0)
        if (const View now = engine.view(); !now.running.empty())
          CHECK(engine.cancel(now.row(now.running[random.below(now.running.size())]).id).ok());
    }
    preempted += engine.template observed<testing::Audit>().preempts;
    if (turns) continue;
    testing::check_all_served(engine, keys.size());
    if (!testing::streams_weights<E> && engine.pinned().count() == 0) CHECK(engine.ledger().device().free() == memory);
  }
  return preempted;
}

#define SLUICE_SHARES(System)                                                                                          \
  TEST_CASE("beginnings are shared under pressure: " #System) {                                                        \
    CHECK(serve_beginnings<System>(60, 5, testing::KvOf::equal_layers) > 20);                                          \
  }
#define SLUICE_SHARES_GROUPS(System)                                                                                   \
  TEST_CASE("beginnings are shared under pressure, with KV in groups: " #System) {                                     \
    CHECK(serve_beginnings<System>(60, 6, testing::KvOf::groups) > 20);                                                \
  }

using ByPriority = With<VllmPriorityPreempts, KeepUntilOverwritten>;
using ByPriorityAhead = With<ByPriority, OneStepAhead>;
using EveryState = With<VllmPriorityPreempts, KeepUntilOverwrittenAt<EveryBlock>>;
using ByHints = With<VllmPriorityPreempts, KeepByHints>;
using InTurns = With<FastServe, KeepUntilOverwritten, testing::ShortQuanta>;
using Rotating = With<SuperInfer, KeepUntilOverwritten, testing::Restless>;
using ByCredits = With<Scorpio, KeepUntilOverwritten>;
using ByLength = With<SjfOracle, KeepUntilOverwritten>;
using Remapped = With<Mirage, KeepUntilOverwritten>;
using EveryLayer = With<DeepSpeedWeights, KeepUntilOverwritten>;
using Shares = With<FlexGenWeights, KeepUntilOverwritten>;
using Intervals = With<SelectN, KeepUntilOverwritten>;
using IntervalsByPriority = With<Intervals, PriorityPreempts, PreemptLeastUrgent>;
using Tiered = With<HiCache, PriorityPreempts, PreemptLeastUrgent>;
using Pinned = With<Continuum, PriorityPreempts, PreemptLeastUrgent>;
SLUICE_SHARES(ByPriority)
SLUICE_SHARES(ByPriorityAhead)
SLUICE_SHARES(ByHints)
SLUICE_SHARES(ByCredits)
SLUICE_SHARES(ByLength)
SLUICE_SHARES(VllmPrefixCaching)
SLUICE_SHARES(Remapped)
SLUICE_SHARES(EveryLayer)
SLUICE_SHARES(Shares)
SLUICE_SHARES(Intervals)
SLUICE_SHARES(IntervalsByPriority)
SLUICE_SHARES(Tiered)
SLUICE_SHARES(Pinned)
SLUICE_SHARES(InferCept)
SLUICE_SHARES_GROUPS(ByPriority)
SLUICE_SHARES_GROUPS(ByPriorityAhead)
SLUICE_SHARES_GROUPS(EveryState)
SLUICE_SHARES_GROUPS(Remapped)
SLUICE_SHARES_GROUPS(Intervals)
SLUICE_SHARES_GROUPS(IntervalsByPriority)
SLUICE_SHARES_GROUPS(VllmPrefixCaching)

TEST_CASE("a victim gives up the blocks that an ended request left to it, too") {
  using E = With<ByPriority, testing::SmallCost, BasicSimulated<testing::SmallCost>, testing::Audit>;
  const Trial trial{.layers = 2, .batch = 8, .device = LayerBlocks{200}, .host = LayerBlocks{0}, .requests = {}};
  auto config = testing::trial_config<E>(trial, {});
  config.limits.max_context = Tokens{4096};
  config.limits.batch_tokens = Tokens{512};
  auto made = E::make(std::move(config));
  REQUIRE(made);
  E& engine = *made;
  std::vector<BlockKey> keys;
  for (std::uint64_t block = 0; block < 10; ++block)
    keys.push_back(next_key(keys.empty() ? BlockKey{} : keys.back(), block));
  REQUIRE(engine.submit({Seconds{0}, Tokens{165}, Tokens{20}, {}}, keys)); // computes the beginning
  REQUIRE(engine.step() == Stepped::ran);
  REQUIRE(engine.submit({Seconds{0}, Tokens{170}, Tokens{400}, {}}, keys)); // finds it
  while (engine.alive() == 2) REQUIRE(engine.step() == Stepped::ran);
  RequestSpec urgent{Seconds{0}, Tokens{1510}, Tokens{10}, {}};
  urgent.priority = -1;
  REQUIRE(engine.submit(urgent)); // 96 of 100 blocks
  while (engine.step() == Stepped::ran) {
  }
  testing::check_all_served(engine, 3);
  for (const auto& one : engine.observed<testing::Audit>().lives) CHECK(one.second.ended); // none is refused
}

TEST_CASE("requests that take turns and lose what they computed find the blocks that are left") {
  CHECK(serve_beginnings<InTurns>(20, 7, testing::KvOf::equal_layers, true) > 20);
  CHECK(serve_beginnings<InTurns>(20, 7, testing::KvOf::groups, true) > 20);
  CHECK(serve_beginnings<Rotating>(20, 7, testing::KvOf::equal_layers, true) > 20);
}

} // namespace
