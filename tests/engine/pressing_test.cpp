// SPDX-License-Identifier: Apache-2.0
// Pressing claims cost at most the request that they name; skipped claims leave their place to later ones.
#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/batching.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

using namespace sluice;
using sluice::testing::SmallCost;

namespace {

/// First come, first served; the first that waits presses, at the cost of the request that joined `nth` (of those that
/// decode), in a full batch too or not.
template <std::size_t Nth, bool Full = true>
struct Presses : Fcfs {
  static constexpr bool steady = false;

  void propose(const View& view, State& state, Proposal& proposal) const {
    ClaimBuilder<Batching::chunked, Newcomers::optional> claims(view, proposal);
    for (const Slot slot : view.running) claims.keep(slot);
    std::optional<Slot> pressing;
    if (view.running.size() > Nth && (Full || !claims.full()) && !state.queue.empty() &&
        view.row(view.running[Nth]).generated.count() > 0 && claims.press(state.queue.front(), view.running[Nth]))
      pressing = state.queue.front();
    for (const Slot slot : view.preempted)
      if (view.row(slot).may_return) claims.join(slot, false);
    for (const Slot slot : state.queue)
      if (slot != pressing && !claims.join(slot, false)) return;
  }
};
/// A relief that no pressing claim may ask.
struct Never : PreemptNewest {
  std::size_t choose(const View&, State&, std::span<const Claim> candidates) const {
    FAIL_CHECK("a pressing claim costs the request that it names, and no other");
    return candidates.size() - 1;
  }
};

template <class... Policies>
auto small_engine(std::int64_t device_blocks, int batch = 8) {
  using E = Engine<Policies..., MoveToHost, EveryStep, SmallCost, BasicSimulated<SmallCost>>;
  auto made = E::make({.limits = {.batch = batch, .batch_tokens = Tokens{512}, .block_tokens = Tokens{16}},
                       .geometry = {2, Bytes{4096}, Bytes{1 << 20}},
                       .device_blocks = LayerBlocks{2 * device_blocks},
                       .host_blocks = LayerBlocks{1000},
                       .cost = SmallCost{},
                       .backend = BasicSimulated<SmallCost>{SmallCost{}}});
  REQUIRE(made.has_value());
  return *std::move(made);
}

template <class E>
std::vector<std::uint32_t> ids(const E& engine, std::span<const Slot> slots) {
  std::vector<std::uint32_t> all;
  for (const Slot slot : slots) all.push_back(index(engine.view().row(slot).id));
  std::sort(all.begin(), all.end());
  return all;
}
using Ids = std::vector<std::uint32_t>;

/// Submits prompts of so many tokens, all with outputs that stay within their last block for long.
template <class E>
void submit(E& engine, std::vector<std::int64_t> prompts) {
  for (const std::int64_t prompt : prompts)
    REQUIRE(engine.submit({.prompt = Tokens{prompt}, .output = Tokens{10}, .slo = {}}));
}

} // namespace

TEST_CASE("a pressing claim joins without cost if there is room") {
  auto engine = small_engine<Presses<0>, Never>(10);
  submit(engine, {33, 33});
  engine.step();
  submit(engine, {33});
  engine.step();
  CHECK(ids(engine, engine.view().running) == Ids{0, 1, 2});
}

/// The requests that run and the paused ones after a fourth has joined three that run.
template <class E>
auto joined(E engine) {
  submit(engine, {33, 33, 33});
  engine.step();
  REQUIRE(ids(engine, engine.view().running) == Ids{0, 1, 2});
  submit(engine, {33});
  CHECK(engine.step() == Stepped::ran);
  return std::pair{ids(engine, engine.view().running), ids(engine, engine.view().preempted)};
}

TEST_CASE("a pressing claim joins at the cost of the request that it names") {
  CHECK(joined(small_engine<Presses<0>, Never>(10)) == std::pair{Ids{1, 2, 3}, Ids{0}});
  CHECK(joined(small_engine<Presses<1>, Never>(10)) == std::pair{Ids{0, 2, 3}, Ids{1}});
  CHECK(joined(small_engine<Presses<2>, Never>(10)) == std::pair{Ids{0, 1, 3}, Ids{2}});
}

TEST_CASE("in a full batch, a pressing claim takes the place of the request that it names") {
  constexpr std::int64_t more = 100, enough = 9; // blocks: for all, or for three
  for (const std::int64_t blocks : {more, enough}) {
    CAPTURE(blocks);
    CHECK(joined(small_engine<Presses<0>, Never>(blocks, 3)) == std::pair{Ids{1, 2, 3}, Ids{0}});
    CHECK(joined(small_engine<Presses<1>, Never>(blocks, 3)) == std::pair{Ids{0, 2, 3}, Ids{1}});
    CHECK(joined(small_engine<Presses<2>, Never>(blocks, 3)) == std::pair{Ids{0, 1, 3}, Ids{2}});
  }
}

TEST_CASE("in a full batch, a pressing claim without room costs nobody") {
  auto engine = small_engine<Presses<0>, Never>(10, 2);
  submit(engine, {33, 33}); // 3 blocks each
  engine.step();
  submit(engine, {120}); // 8 blocks: not even without request 0
  for (int i = 0; i < 3; ++i) {
    CHECK(engine.step() == Stepped::ran);
    CHECK(ids(engine, engine.view().running) == Ids{0, 1});
    CHECK(engine.view().preempted.empty());
  }
  while (engine.step() == Stepped::ran) {
  }
  CHECK(engine.status().ok());
  CHECK(engine.alive() == 0);
}

TEST_CASE("a pressing claim that its request cannot pay for costs nobody, and keeps no other out") {
  auto engine = small_engine<Presses<0>, Never>(10);
  submit(engine, {33, 33}); // 3 blocks each, 4 remain
  engine.step();
  submit(engine, {128, 20}); // 8 blocks: not even without request 0; and 2
  engine.step();
  CHECK(ids(engine, engine.view().running) == Ids{0, 1, 3});
  CHECK(engine.view().preempted.empty());
}

namespace {

/// Everything resident; every optional claim that fits joins, whatever those before it do.
struct Backfills {
  using role = roles::Placement;
  static constexpr bool places_layers = false;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
    std::vector<std::size_t> skipped;
  };
  bool nonsense = false; ///< a verdict that no engine may accept

  [[nodiscard]] Holding least(int /*layers*/) const { return {}; }
  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    plan.requests.clear();
    state.skipped.clear();
    LayerBlocks used{0};
    std::vector<std::size_t> left_out;
    std::size_t joined = 0;
    for (std::size_t i = 0; i < task.claims.size(); ++i) {
      const LayerBlocks more = task.footprint_of({}, task.blocks(task.claims[i])).device;
      if (used + more > task.device_budget) {
        if (i < task.required) return Verdict::infeasible(Binding::device_memory);
        left_out.push_back(i);
        continue;
      }
      used += more;
      plan.requests.push_back({task.claims[i].slot, Holding{}});
      if (i < task.required) continue;
      ++joined;
      state.skipped.insert(state.skipped.end(), left_out.begin(), left_out.end()); // before one that joins
      left_out.clear();
    }
    plan.in_flight = LayerBlocks{0};
    if (nonsense && task.required > 0) state.skipped.assign(1, 0);
    return {true, joined, Binding::none, state.skipped};
  }
};
static_assert(explain<Backfills>());

} // namespace

TEST_CASE("a placement names which optional claims join: later ones fill the room that earlier ones leave") {
  auto engine = small_engine<Backfills>(10);
  submit(engine, {33, 33});
  engine.step();
  submit(engine, {100, 20, 120, 20, 20}); // 7, 2, 8, 2 and 2 blocks; 4 remain
  engine.step();
  CHECK(ids(engine, engine.view().running) == Ids{0, 1, 3, 5});
  while (engine.step() == Stepped::ran) {
  }
  CHECK(engine.status().ok());
  CHECK(engine.alive() == 0);
}

TEST_CASE("a placement that skips a required claim ends the run with a sentence") {
  using E = decltype(small_engine<Backfills>(10));
  auto made = E::make({.limits = {.batch = 8},
                       .geometry = {2, Bytes{4096}, Bytes{1 << 20}},
                       .device_blocks = LayerBlocks{100},
                       .host_blocks = LayerBlocks{0},
                       .cost = SmallCost{},
                       .backend = BasicSimulated<SmallCost>{SmallCost{}},
                       .placement = {.nonsense = true}});
  REQUIRE(made.has_value());
  submit(*made, {33, 33});
  CHECK(made->step() == Stepped::ran);
  CHECK(made->step() == Stepped::failed);
  CHECK(made->status().error().line().find("Verdict::joined") != std::string::npos);
}

namespace {
using Pressing = Engine<Presses<0, false>, MoveToHost>; // in a full batch nobody would ever wait
using PressingLate = Engine<Presses<2>, EveryStep>;
using Backfilling = Engine<Backfills, MoveToHost, EveryStep>;
SLUICE_CONSERVES(Pressing)
SLUICE_CONSERVES(PressingLate)
SLUICE_CONSERVES(Backfilling)
} // namespace
