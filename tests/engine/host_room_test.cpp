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
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr int layers = 4;

/// Who was preempted, and what was said to remain.
struct Asides {
  using role = roles::Observer;
  using hears = Events<events::Preempted>;
  static constexpr bool wants_timeline = false;
  struct State {
    std::vector<std::pair<RequestId, Kept>> all;
  };
  void on(State& state, const events::Preempted& event) const { state.all.emplace_back(event.row.id, event.kept); }
};

/// An engine with batches of at most `batch`, blocks of four tokens, and memory for so many token blocks.
template <class System>
auto engine_with(int batch, std::int64_t device, std::int64_t host, typename System::admission_type admission = {},
                 BytesPerSecond rate = BytesPerSecond{1e6}) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Summary, Asides>;
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

/// All KV on the device. Once the oldest request is large, it runs only if nobody has KV on the host, or never.
template <bool Never>
struct WantsEmptyHost : AllResident {
  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    const RequestRow& first = task.view.row(task.claims.front().slot);
    if (first.id == RequestId{0} && first.context() >= Tokens{32} &&
        (Never || task.host_budget < task.view.ledger->host().capacity())) {
      plan.in_flight = LayerBlocks{0};
      return Verdict::infeasible(Binding::host_memory);
    }
    return AllResident::solve(task, state, plan);
  }
};

} // namespace

TEST_CASE("a preempted request of which nothing will be left moves nothing, and says so") {
  auto engine = engine_with<Engine<WantsEmptyHost<false>, EveryStep, MoveToHost>>(3, 20, 100);
  for (int i = 0; i < 3; ++i) submit(engine, 4, 40);
  int moved = 0, dropped = 0;
  std::size_t seen = 0;
  run(engine, [&] {
    const auto& all = engine.observed<Asides>().all;
    for (; seen < all.size(); ++seen) {
      const RequestId id = all[seen].first;
      const Kept kept = all[seen].second;
      CAPTURE(index(id));
      for (const RequestRow& row : engine.view().rows)
        if (row.id == id && row.phase == Phase::preempted) CHECK((row.blocks.count() > 0) == (kept == Kept::host));
      ++(kept == Kept::host ? moved : dropped);
    }
  });
  CHECK(moved > 0);
  CHECK(dropped > 0);
  for (const RequestRecord& record : engine.observed<Summary>().requests) CHECK(record.outcome == Outcome::served);
}

TEST_CASE("nobody is preempted for a request that is refused in the end") {
  auto engine = engine_with<Engine<WantsEmptyHost<true>, EveryStep, MoveToHost>>(3, 40, 100);
  for (int i = 0; i < 3; ++i) submit(engine, 4, 40);
  run(engine, [] {});
  const auto& records = engine.observed<Summary>().requests;
  REQUIRE(records.size() == 3);
  for (std::size_t i = 0; i < records.size(); ++i) {
    CHECK((records[i].outcome == Outcome::refused) == (i == 0));
    CHECK(records[i].times_preempted == 0);
  }
}

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
