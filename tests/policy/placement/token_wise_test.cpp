// SPDX-License-Identifier: Apache-2.0
// TokenWise: the batch and the uncached share against an exhaustive search, and the guarantees of its plans.
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/flop_count.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/layout/layer_groups.hpp"
#include "sluice/policy/placement/token_wise.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/move_to_host.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "engine/trials.hpp"
#include "policy/placement/uncached_scenes.hpp"
#include <doctest/doctest.h>

#include <cmath>

using namespace sluice;
using namespace sluice::testing;

namespace {

using TokenWiseGroups = Engine<TokenWise, EveryStep, LayerGroups<4>>;
using TokenWisePaused = Engine<TokenWise, EveryStep, PauseResume, NextLayer>;
using TokenWiseRarely = Engine<TokenWise, MoveToHost>;
using Sized = Engine<SizedBatch, EveryStep>;

SLUICE_CONSERVES(TokenWiseGroups)
SLUICE_CONSERVES(TokenWisePaused)
SLUICE_CONSERVES(TokenWiseRarely)
SLUICE_CONSERVES(Sized)

} // namespace

TEST_CASE("the exact optimiser finds the best of every batch and a fine grid of shares") {
  Random random(31);
  int recomputed = 0;
  for (int round = 0; round < 300; ++round) {
    const UncachedScene scene = random_scene(random, 40);
    const auto task = scene.task();
    const UncachedSums sums = sums_of(task);
    const UncachedLayers layers = random_layers(random);
    const UncachedProblem problem(task, sums, layers, layers.pair, 1.0);
    const BatchShare best = best_on_grid(problem, 400);
    const BatchShare found = ExactBatchShare{}(problem);
    REQUIRE(found.feasible == best.feasible);
    if (!best.feasible) continue;
    // The grid's share is up to 1/400 more than needed; the search's is not.
    CHECK(found.rate() >= best.rate() * (1 - 1e-9));
    CHECK(found.rate() <= best.rate() * 1.05);
    if (found.uncached > 0)
      CHECK(problem.room(static_cast<double>(found.requests), found.uncached * 0.999) > problem.room_budget);
    CHECK(problem.room(static_cast<double>(found.requests), found.uncached) <= problem.room_budget * (1 + 1e-9));
    CHECK(problem.seconds(static_cast<double>(found.requests), found.uncached) <=
          problem.limit_s(static_cast<double>(found.requests)));
    recomputed += found.uncached > 0 ? 1 : 0;
  }
  CHECK(recomputed > 20); // the scenes cover both kinds
}

TEST_CASE("time grows with the share and the batch, and fetched states cost less time than passed ones") {
  Random random(32);
  for (int round = 0; round < 200; ++round) {
    const UncachedScene scene = random_scene(random, 20);
    const auto task = scene.task();
    const UncachedSums sums = sums_of(task);
    const UncachedLayers layers = random_layers(random);
    const UncachedProblem problem(task, sums, layers, layers.pair, 1.0);
    const double b = static_cast<double>(between(random, 1, 20));
    const double r = random.uniform();
    const double slack = 1 + 1e-9;
    CHECK(problem.seconds(b, r) <= problem.seconds(b, std::min(1.0, r + 0.1)) * slack);
    CHECK(problem.seconds(b, r) <= problem.seconds(std::min(20.0, b + 0.5), r) * slack);
    CHECK(problem.room(b, 0) <= problem.room(std::min(20.0, b + 1), 0));
  }
}

TEST_CASE("the problem's time is the evaluator's, layer by layer, if no transfer stalls") {
  Random random(33);
  for (int round = 0; round < 100; ++round) {
    UncachedScene scene = random_scene(random, 12);
    const auto task = scene.task();
    const UncachedSums sums = sums_of(task);
    const UncachedLayers layers = random_layers(random);
    const UncachedProblem problem(task, sums, layers, layers.pair, 1.0);
    // All of the old blocks uncached, so that shares are whole blocks.
    Work work = task.steady_decode(task.claims.size());
    std::vector<RebuiltWork> rebuilds;
    const Holding held = layers.holding(all_tokens, task.layers());
    double fetched = 0;
    for (const Claim& claim : task.claims) {
      const std::int64_t old = task.blocks(claim).count() - 1;
      rebuilds.push_back({Tokens{old * 16}, held.nowhere, held.hidden});
      fetched +=
          static_cast<double>(old) * (held.host.count() + task.view.geometry.hidden_size().blocks(held.hidden.count()));
    }
    work.rebuilds = rebuilds;
    const double compute_s = compute_time(task.cost, work, task.layers()).count();
    const BlockLink link = task.block_link();
    const double link_s = fetched / link.blocks_per_s + link.per_layer_s * (held.host.count() + held.hidden.count());
    CHECK(problem.seconds(static_cast<double>(task.claims.size()), 1.0) ==
          doctest::Approx(std::max(compute_s, link_s)).epsilon(1e-6));
  }
}

TEST_CASE("with eLLM's own cost model, only FLOPs, nothing is recomputed unless required claims need the memory") {
  Random random(34);
  for (int round = 0; round < 200; ++round) {
    UncachedScene scene = random_scene(random, 30);
    const std::int64_t length = between(random, 100, 2000);
    for (RequestRow& row : scene.world.rows) { // of one length, as in the paper's formula
      row.spec.prompt = Tokens{length};
      row.generated = Tokens{1};
      row.computed = Tokens{length};
      row.blocks = blocks_for(row.computed, Tokens{16});
      row.slack = Tokens{row.blocks.count() * 16} - row.computed;
    }
    const FlopCount flops(scene.shape, scene.device);
    const auto task = scene.task_with(flops);
    const UncachedSums sums = sums_of(task);
    const UncachedLayers layers = random_layers(random);
    const UncachedProblem problem(task, sums, layers, layers.pair, 1.0);
    const BatchShare found = ExactBatchShare{}(problem);
    if (!found.feasible) continue;
    const double required = static_cast<double>(std::max<std::size_t>(1, task.required));
    if (problem.room(required, 0) <= problem.room_budget) CHECK(found.uncached == 0);
  }
}

TEST_CASE("a plan of TokenWise fits both memories, including its workspace, and keeps each request's newest block") {
  Random random(35);
  int uncached_plans = 0;
  for (int round = 0; round < 300; ++round) {
    const UncachedScene scene = random_scene(random, 24);
    const auto task = scene.task();
    using Task = std::remove_const_t<decltype(task)>;
    TokenWise policy;
    TokenWise::State<Task::transfer_type> state;
    Plan plan;
    const Verdict verdict = policy.solve(task, state, plan);
    if (!verdict.feasible) continue;
    REQUIRE(plan.requests.size() == task.required + verdict.joined);
    Footprint room;
    std::int64_t heads = 0;
    for (std::size_t i = 0; i < plan.requests.size(); ++i) {
      const Holding& holding = plan.requests[i].holding;
      const TokenBlocks blocks = task.blocks(task.claims[i]);
      room = room + task.footprint_of(holding, blocks);
      if (holding.all_resident()) continue;
      const std::int64_t head = holding.head_blocks(blocks, Tokens{16}).count();
      heads += head;
      CHECK(head < blocks.count());
      CHECK((holding.host & holding.nowhere).empty());
      CHECK((holding.hidden - holding.nowhere).empty());
      CHECK(holding.away() == LayerSet::all(task.layers()));
    }
    CHECK(room.device + plan.in_flight <= task.device_budget);
    CHECK(room.host <= task.host_budget);
    CHECK(plan.in_flight.count() >= heads * 2 * state.layers.pair.period());
    uncached_plans += heads > 0 ? 1 : 0;
  }
  CHECK(uncached_plans > 20);
}

TEST_CASE("hidden states come from where the cost model says they are cheaper") {
  Random random(36);
  for (int round = 0; round < 100; ++round) {
    const UncachedScene scene = random_scene(random, 12);
    const auto task = scene.task();
    const UncachedSums sums = sums_of(task);
    for (const LayerPair pair : ellm_pairs) {
      const auto seconds = [&](bool on_host) {
        return UncachedProblem(task, sums, UncachedLayers{pair, on_host}, pair, 1.0).seconds(5, 0.5);
      };
      // Passing costs nearly all of every layer's matrices; keeping costs a part of the link that swapped layers use.
      const UncachedLayers free{pair, true};
      auto no_bytes = scene;
      no_bytes.world.geometry.layer_hidden_bytes = Bytes{0};
      const auto free_task = no_bytes.task();
      CHECK(UncachedProblem(free_task, sums, free, pair, 1.0).seconds(5, 0.5) <=
            std::min(seconds(true), seconds(false)) * (1 + 1e-9)); // free hidden states are the cheapest
    }
  }
}

TEST_CASE("eLLM's Figure 7: units of four layers pack swapped, recomputed and decoded layers") {
  // Two requests with four uncached tokens each, blocks of four tokens. A: 1 + 1 + 2 layers in two blocks; B: 2 + 2 + 4
  // in four.
  CHECK(LayerGroups<4>::room(TokenBlocks{1}, 2 * LayerPair{1, 1}.period(), 8).count() * 2 == 2 * 4);
  CHECK(LayerGroups<4>::room(TokenBlocks{1}, 2 * LayerPair{2, 2}.period(), 8).count() * 2 == 4 * 4);
}
