// SPDX-License-Identifier: Apache-2.0
// bench_decision: how long an engine takes to decide an iteration, by how many requests run and wait.
//
//   bench_decision [--benchmark_filter=REGEX] [--benchmark_repetitions=N] [--benchmark_report_aggregates_only=true]
//
// Measured: `begin()` of a simulated engine, which is all that a device would wait for between two iterations.
// Admission, relief, placement and its verdicts decide, and the decision takes effect (`Decider`, `commit`, `prepare`).
// OrbitFlow and FastServe decide in step here: as published they do so while the last iteration runs.
//
// The engine is in the middle of a run. A generator's request takes the place of each that ends, so that as many run
// and wait all along, half of them with a TTFT SLO that they have missed. The device has room for `blocks` token blocks
// for each running request: with 22 an offloading engine runs all of them, with 16 the KV of fewer fits and can be
// fetched in time. With `pauses` that half has a TTFT SLO of 10 s instead of 1 s, and a PauseBudget has no limit, so
// that more newcomers press. `ran`, `paused` and `offloaded` (the share of the running requests' KV) are means. With
// eight running requests most decisions have the last one's batch, with 256 most have another (`changed`).
//
// Times are this thread's processor time, so that other load disturbs them less. Time: the mean. `p50_us` and `p99_us`:
// of all decisions; `p99_changed_us`: of those whose batch differs from the last one.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/engine/systems/fastserve.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/pie.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/lookahead/in_step.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/workload/generator.hpp"

#include "distances_for_all.hpp"
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double quantile_us(std::vector<double> seconds, double q) { // nearest rank
  if (seconds.empty()) return 0;
  const auto at = static_cast<std::size_t>(std::ceil(q * static_cast<double>(seconds.size()))) - 1;
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(at), seconds.end());
  return 1e6 * seconds[at];
}

/// An engine that serves at most `running` requests at once while `waiting` others queue, on the device and with the
/// lengths of MIRAGE's workload (bench/leading.json).
template <class E>
class Crowd {
 public:
  Crowd(std::int64_t running, std::int64_t waiting, std::int64_t blocks, bool pauses)
      : engine_(std::move(*E::make(configuration(running, blocks, pauses)))),
        live_(running + waiting),
        ttft_s_(pauses ? 10 : 1) {
    for (int i = 0; i < 1'000; ++i) {
      refill();
      if (engine_.step() != Stepped::ran) std::abort();
    }
  }

  /// One iteration; returns how long its decision took.
  double step() {
    refill();
    const double begun = cpu_seconds();
    const Begun state = engine_.begin();
    const double seconds = cpu_seconds() - begun;
    if (state != Begun::under_way) std::abort();
    std::uint64_t batch = 0;
    for (const Slot slot : engine_.view().running) batch += candidate_key(engine_.view().row(slot).id);
    changed_ = std::exchange(batch_, batch) != batch;
    engine_.finish();
    return seconds;
  }
  [[nodiscard]] bool changed() const { return changed_; }
  [[nodiscard]] View view() const { return engine_.view(); }
  /// The share of the running requests' KV that is on the host.
  [[nodiscard]] double offloaded() const {
    const View seen = engine_.view();
    std::int64_t all = 0, host = 0;
    for (const Slot slot : seen.running) {
      const RequestRow& row = seen.row(slot);
      all += row.blocks.count() * seen.geometry.layers;
      host += row.blocks.count() * row.holding.host.count();
    }
    return static_cast<double>(host) / static_cast<double>(all);
  }

 private:
  static typename E::Config configuration(std::int64_t running, std::int64_t blocks, bool pauses) {
    auto config = configure<E>({.model = opt_13b(),
                                .device = gh200_96(),
                                .kv_blocks = TokenBlocks{running * blocks},
                                .limits = {.batch = static_cast<int>(running), .batch_tokens = Tokens{2048}}});
    if constexpr (requires { config.admission.budget.misses; })
      if (pauses) config.admission.budget.misses = 1e9;
    return config;
  }
  void refill() {
    while (engine_.alive() < live_) {
      RequestSpec request = **requests_.next();
      request.arrival = engine_.now();
      request.slo = {.ttft = Seconds{late_.below(2) == 0 ? ttft_s_ : 1e4}, .tbt = Seconds{0.1}};
      if (!engine_.submit(request)) std::abort();
    }
  }

  E engine_;
  std::int64_t live_;
  double ttft_s_;
  Generator requests_{{.name = "crowd", // whose arrivals are ignored
                       .arrivals = {},
                       .prompt = LognormalLength{161, 1},
                       .output = LognormalLength{338, 1},
                       .requests = 1'000'000'000,
                       .longest = Tokens{1024}},
                      41};
  Random late_{41};
  std::uint64_t batch_ = 0;
  bool changed_ = false;
};

template <class E>
void decision(benchmark::State& state) {
  Crowd<E> crowd(state.range(0), state.range(1), state.range(2), state.range(3) != 0);
  std::vector<double> all, changed;
  double running = 0, paused = 0, offloaded = 0;
  for (auto _ : state) {
    all.push_back(crowd.step());
    state.SetIterationTime(all.back());
    if (crowd.changed()) changed.push_back(all.back());
    running += static_cast<double>(crowd.view().running.size());
    paused += static_cast<double>(crowd.view().preempted.size());
    offloaded += crowd.offloaded();
  }
  const auto count = static_cast<double>(all.size());
  state.counters["ran"] = running / count;
  state.counters["paused"] = paused / count;
  state.counters["offloaded"] = offloaded / count;
  state.counters["changed"] = static_cast<double>(changed.size()) / count;
  state.counters["p50_us"] = quantile_us(all, 0.5);
  state.counters["p99_us"] = quantile_us(all, 0.99);
  state.counters["p99_changed_us"] = quantile_us(changed, 0.99);
}

using GroupedForAll = With<Confluence, bench::DistancesForAll<GroupedDistance>>;
using ExactForAll = With<Confluence, bench::DistancesForAll<DistancePlacement>>;
using GroupedAlone = With<Confluence, GroupedDistance>;
using ExactAlone = With<Confluence, DistancePlacement>;
using OrbitFlowInStep = With<OrbitFlow, InStep>;
using FastServeInStep = With<FastServe, InStep>;

#define CROWDS                                                                                                         \
  ArgNames({"running", "waiting", "blocks", "pauses"})                                                                 \
      ->Args({8, 100, 22, 0})                                                                                          \
      ->Args({64, 300, 22, 0})                                                                                         \
      ->Args({256, 1'000, 22, 0})                                                                                      \
      ->Args({256, 1'000, 16, 0})                                                                                      \
      ->Args({256, 1'000, 16, 1})                                                                                      \
      ->Iterations(2'000)                                                                                              \
      ->UseManualTime()                                                                                                \
      ->Unit(benchmark::kMicrosecond)
BENCHMARK_TEMPLATE(decision, Confluence)->CROWDS;
BENCHMARK_TEMPLATE(decision, GroupedForAll)->CROWDS;
BENCHMARK_TEMPLATE(decision, ExactForAll)->CROWDS;
BENCHMARK_TEMPLATE(decision, GroupedAlone)->CROWDS;
BENCHMARK_TEMPLATE(decision, ExactAlone)->CROWDS;
BENCHMARK_TEMPLATE(decision, Pie)->CROWDS;
BENCHMARK_TEMPLATE(decision, VllmSwap)->CROWDS;
BENCHMARK_TEMPLATE(decision, OrbitFlowInStep)->CROWDS;
BENCHMARK_TEMPLATE(decision, FastServeInStep)->CROWDS;

} // namespace

BENCHMARK_MAIN();
