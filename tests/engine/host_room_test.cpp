// SPDX-License-Identifier: Apache-2.0
// The host's room: whose KV counts while a decision is made, who must give room up, and what a preemption moves.
#include "sluice/engine/engine.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/relief/refuse.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr int layers = 4;

/// An engine with batches of at most `batch`, blocks of four tokens, and memory for so many token blocks.
template <class System>
auto engine_with(int batch, std::int64_t device, std::int64_t host, typename System::admission_type admission = {},
                 BytesPerSecond rate = BytesPerSecond{1e6}) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Summary>;
  SmallCost world;
  world.rate = rate;
  auto made = E::make(
      {.limits = {.batch = batch, .batch_tokens = Tokens{64}, .block_tokens = Tokens{4}, .max_context = Tokens{256}},
       .geometry = {layers, Bytes{4096}, Bytes{1 << 20}, Bytes{3000}},
       .device_blocks = LayerBlocks{device * layers},
       .host_blocks = LayerBlocks{host * layers},
       .cost = world,
       .backend = BasicSimulated<SmallCost>{world},
       .admission = admission});
  REQUIRE(made);
  return std::move(*made);
}

template <class E>
void submit(E& engine, std::int64_t prompt, std::int64_t output) {
  RequestSpec spec;
  spec.arrival = engine.now();
  spec.prompt = Tokens{prompt};
  spec.output = Tokens{output};
  REQUIRE(engine.submit(spec));
}

/// Steps until all requests have ended, and calls `ran()` after each step.
template <class E, class Ran>
void run(E& engine, Ran&& ran) {
  for (int guard = 0; engine.alive() > 0 && guard < 10'000; ++guard) {
    const Stepped stepped = engine.step();
    if (stepped == Stepped::failed) FAIL(engine.status().error().line());
    check_ledger(engine);
    ran();
  }
  CHECK(engine.alive() == 0);
}

/// All KV on the host, fetched in each iteration.
struct FetchedAll {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };
  [[nodiscard]] constexpr Holding least(int count) const { return {all_tokens, LayerSet::all(count)}; }
  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    return join_longest_prefix(task, plan, [&](std::size_t count) {
      plan.requests.clear();
      for (const Claim& claim : task.claims.first(count)) plan.requests.push_back({claim.slot, least(task.layers())});
      return state.trial.fits(task, plan);
    });
  }
};

} // namespace

TEST_CASE("a request that Relief refuses leaves its host memory to the others at once") {
  // Three blocks each in the end, so two requests fit the host, and three do not.
  auto engine = engine_with<Engine<FetchedAll, EveryStep, Refuse, MoveToHost>>(3, 20, 7);
  for (int i = 0; i < 3; ++i) submit(engine, 4, 9);
  run(engine, [] {});
  const auto& records = engine.observed<Summary>().requests;
  REQUIRE(records.size() == 3);
  CHECK(std::count_if(records.begin(), records.end(),
                      [](const RequestRecord& one) { return one.outcome == Outcome::served; }) == 2);
  CHECK(records.back().outcome == Outcome::refused);
}
