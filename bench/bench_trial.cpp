// SPDX-License-Identifier: Apache-2.0
// bench_trial: what one judgement of a plan takes, by the number of requests, and what it is charged on the simulated
// clock if its policy does not say its effort (core/stopwatch.hpp has the constants that come from here).
#include "sluice/core/stopwatch.hpp"
#include "sluice/policy/layout/per_layer.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/placement/step_trial.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/transfer/next_layer.hpp"
#include "sluice/state/plan/space.hpp"

#include "support/hand_made.hpp"
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace sluice;
using testing::HandMade;
using testing::PlainCost;

template <class Transfer>
using TaskOf = PlacementTask<PlainCost, Transfer, PerLayer>;

/// Requests that decode, each with every second of 32 layers offloaded, in ample memory.
struct Scene {
  HandMade made;
  std::vector<Claim> claims;
  PlainCost cost{.rate = BytesPerSecond{1e10}};
  Plan plan;
  View view;

  explicit Scene(std::int64_t requests) {
    made.geometry.layers = 32;
    made.limits.batch = static_cast<int>(requests);
    const LayerSet set = every_kth_layer(32, 2);
    for (std::int64_t i = 0; i < requests; ++i) {
      const Slot slot = made.decoding(Tokens{500 + 37 * (i % 19)}, Tokens{10}, Tokens{400});
      made.rows[index(slot)].spec.slo = {Seconds{5}, Seconds{0.05}};
      claims.push_back({.slot = slot, .tokens = Tokens{1}});
      plan.requests.push_back({slot, Holding{all_tokens, set, {}}});
    }
    view = made.view();
  }
  template <class Transfer>
  [[nodiscard]] TaskOf<Transfer> task() const {
    return {view, claims, claims.size(), LayerBlocks{1 << 26}, LayerBlocks{1 << 26}, cost, Window{1, 32}};
  }
};

/// Runs `judge(task, scene)`, and reports how much of the measured time it would be charged.
template <class Transfer, class Judge>
void measure(benchmark::State& state, Judge judge) {
  Scene scene(state.range(0));
  const auto task = scene.task<Transfer>();
  const std::int64_t before = judged_ns();
  std::int64_t calls = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(judge(task, scene));
    ++calls;
  }
  state.counters["charged_ns"] = static_cast<double>(judged_ns() - before) / static_cast<double>(calls);
}

template <class Transfer>
void fits(benchmark::State& state) {
  PlanTrial<Transfer> trial;
  measure<Transfer>(state, [&](const auto& task, Scene& scene) { return trial.fits(task, scene.plan); });
}
template <class Transfer>
void fits_alike(benchmark::State& state) {
  UniformTrial<Transfer> trial;
  measure<Transfer>(state, [&](const auto& task, Scene& scene) {
    return trial.in_flight_if_fits(task, scene.claims.size(), every_kth_layer(32, 2),
                                   [&](const Claim& claim) { return task.blocks(claim); });
  });
}
template <class Transfer>
void step(benchmark::State& state) {
  StepTrial<Transfer> trial;
  measure<Transfer>(state, [&](const auto& task, Scene& scene) { return trial.step(task, scene.plan); });
}
template <class Transfer>
void within_slo(benchmark::State& state) {
  StepTrial<Transfer> trial;
  measure<Transfer>(state, [&](const auto& task, Scene& scene) { return trial.within_slo(task, scene.plan); });
}

#define SLUICE_BENCH(function)                                                                                         \
  BENCHMARK(function<NextLayer>)->Arg(1)->Arg(4)->Arg(16)->Arg(64)->Arg(256);                                          \
  BENCHMARK(function<DeadlinePool>)->Arg(1)->Arg(4)->Arg(16)->Arg(64)->Arg(256)
SLUICE_BENCH(fits);
SLUICE_BENCH(fits_alike);
SLUICE_BENCH(step);
SLUICE_BENCH(within_slo);

} // namespace

BENCHMARK_MAIN();
