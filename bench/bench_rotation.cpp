// SPDX-License-Identifier: Apache-2.0
// bench_rotation: cost of a LargestVirtualLagFirst (RotaSched) decision, by the length of the queue.
//
//   bench_rotation [--benchmark_filter=REGEX] [--benchmark_repetitions=N]
//
// The device is full: 256 requests are running and 256 are preempted to the host. The head of a queue of the given
// length has waited beyond its SLO. Every request is ranked, and some are rotated. In `rotation_worst`, no waiting
// request fits the remaining memory, so the whole queue is read.
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

namespace {

using namespace sluice;

/// The rows, lists and ledger that an engine passes to its policy.
struct Scene {
  std::vector<RequestRow> rows;
  std::vector<Slot> running, preempted;
  Ledger ledger;
  LargestVirtualLagFirst rule;
  LargestVirtualLagFirst::State state;
  Limits limits;
  static constexpr int layers = 32;

  Scene(std::int64_t waiting, Tokens prompt) {
    limits.batch = 512;
    limits.batch_tokens = Tokens{8192};
    for (int i = 0; i < 256; ++i) running.push_back(add(Phase::running, Tokens{600}, 1000.0 - i));
    for (int i = 0; i < 256; ++i) preempted.push_back(add(Phase::preempted, Tokens{600}, 1000.0 - i));
    const std::int64_t blocks = 256 * rows.front().blocks.count() * layers;
    ledger = Ledger{LayerBlocks{blocks + 256 * layers}, LayerBlocks{1 << 24}};
    ledger.grow({LayerBlocks{blocks}, LayerBlocks{0}});
    for (std::int64_t i = 0; i < waiting; ++i) {
      const Slot slot = add(Phase::waiting, prompt, 990.0);
      rule.enter(state, slot, rows[index(slot)]);
    }
  }

  Slot add(Phase phase, Tokens prompt, double when) {
    RequestRow row;
    row.id = RequestId{static_cast<std::uint32_t>(rows.size())};
    row.phase = phase;
    row.may_return = true;
    row.spec = RequestSpec{.prompt = prompt, .output = Tokens{1000}, .slo = {}};
    row.spec.arrival = row.running_since = row.last_token = Seconds{when};
    if (phase != Phase::waiting) {
      row.generated = Tokens{10};
      row.computed = prompt + Tokens{9};
      row.blocks = blocks_for(row.computed, limits.block_tokens);
      row.slack = Tokens{row.blocks.count() * limits.block_tokens.count()} - row.computed;
    }
    row.resident_layers = phase == Phase::preempted ? 0 : layers;
    rows.push_back(row);
    return Slot{static_cast<std::uint32_t>(rows.size() - 1)};
  }

  [[nodiscard]] View view() const {
    View view;
    view.now = Seconds{1010};
    view.limits = limits;
    view.geometry.layers = layers;
    view.rows = rows;
    view.running = running;
    view.preempted = preempted;
    view.ledger = &ledger;
    return view;
  }
};

void decide(benchmark::State& bench, Tokens prompt) {
  Scene scene(bench.range(0), prompt);
  const View view = scene.view();
  Proposal proposal;
  for (auto each : bench) {
    (void)each;
    proposal.clear();
    scene.rule.propose(view, scene.state, proposal);
    benchmark::DoNotOptimize(proposal.claims.data());
  }
  bench.counters["claims"] = static_cast<double>(proposal.claims.size());
  bench.counters["leaving"] = static_cast<double>(proposal.leaving.size());
}

void rotation(benchmark::State& bench) { decide(bench, Tokens{700}); }
void rotation_worst(benchmark::State& bench) { decide(bench, Tokens{100'000}); }

BENCHMARK(rotation)->RangeMultiplier(10)->Range(100, 100'000)->Unit(benchmark::kMicrosecond);
BENCHMARK(rotation_worst)->RangeMultiplier(10)->Range(100, 100'000)->Unit(benchmark::kMicrosecond);

} // namespace

BENCHMARK_MAIN();
