// SPDX-License-Identifier: Apache-2.0
// Cost of eLLM's decisions: the batch and the uncached share by the exact search and by SLSQP, and a whole plan.
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/placement/token_wise.hpp"
#include "sluice/state/view/view.hpp"
#ifdef SLUICE_HAVE_NLOPT
#include "sluice/policy/placement/nlopt/slsqp_batch_share.hpp"
#endif

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

namespace {

using namespace sluice;

/// `batch` requests that decode Llama-3-8B on a GH200 with room for `share` of their KV.
struct Scene {
  ModelShape shape = llama3_8b();
  Roofline cost{shape, gh200_96()};
  std::vector<RequestRow> rows;
  std::vector<Claim> claims;
  View view;
  LayerBlocks budget{0};

  Scene(std::int64_t batch, double share) {
    std::int64_t blocks = 0;
    for (std::int64_t i = 0; i < batch; ++i) {
      RequestRow row;
      row.id = RequestId{static_cast<std::uint32_t>(i)};
      row.phase = Phase::running;
      row.spec = RequestSpec{Seconds{0}, Tokens{200 + 37 * i % 1500}, Tokens{500}, {}};
      row.spec.slo.tbt = Seconds{0.1};
      row.generated = row.delivered = Tokens{1 + i % 300};
      row.computed = row.context() - Tokens{1};
      row.blocks = blocks_for(row.computed, Tokens{16});
      row.slack = Tokens{row.blocks.count() * 16} - row.computed;
      blocks += row.blocks.count() + 1;
      rows.push_back(row);
      claims.push_back({static_cast<Slot>(i), Tokens{1}, Tokens{0}, i < batch * 7 / 8});
    }
    view.limits = {.batch = static_cast<int>(batch), .batch_tokens = Tokens{8192}};
    view.geometry = {shape.layers, shape.layer_block_bytes(Tokens{16}), shape.layer_weight_bytes(),
                     shape.layer_hidden_bytes(Tokens{16})};
    view.rows = rows;
    budget = LayerBlocks{static_cast<std::int64_t>(share * static_cast<double>(blocks)) * shape.layers};
  }
  [[nodiscard]] PlacementTask<Roofline, DeadlinePool, PerLayer> task() const {
    return {view, claims, claims.size() * 7 / 8, budget, LayerBlocks{1 << 30}, cost, Window{1, 1}, true, 0};
  }
};

template <class Optimizer>
void bm_batch_share(benchmark::State& state) {
  const Scene scene(state.range(0), 0.8);
  const auto task = scene.task();
  UncachedSums sums;
  double uncached = 0;
  for (auto round : state) {
    (void)round;
    sums.gather(task);
    const UncachedProblem problem(task, sums, UncachedLayers{{1, 3}, true}, LayerPair{1, 3}, 1.0);
    const BatchShare found = Optimizer{}(problem);
    uncached = found.uncached;
    benchmark::ClobberMemory();
  }
  state.counters["r"] = uncached;
}

/// Starts without a previous plan, so it also searches the pair of layers, as the first plan under memory pressure
/// does.
template <class Optimizer>
void bm_plan(benchmark::State& state) {
  const Scene scene(state.range(0), 0.8);
  const auto task = scene.task();
  const BasicTokenWise<Optimizer> policy;
  Plan plan;
  for (auto round : state) {
    (void)round;
    typename BasicTokenWise<Optimizer>::template State<DeadlinePool> remembered;
    benchmark::DoNotOptimize(policy.solve(task, remembered, plan).joined);
  }
}

BENCHMARK(bm_batch_share<ExactBatchShare>)->Arg(64)->Arg(512)->Arg(1024)->Unit(benchmark::kMicrosecond);
BENCHMARK(bm_plan<ExactBatchShare>)->Arg(64)->Arg(512)->Arg(1024)->Unit(benchmark::kMicrosecond);
#ifdef SLUICE_HAVE_NLOPT
BENCHMARK(bm_batch_share<SlsqpBatchShare>)->Arg(64)->Arg(512)->Arg(1024)->Unit(benchmark::kMicrosecond);
BENCHMARK(bm_plan<SlsqpBatchShare>)->Arg(64)->Arg(512)->Arg(1024)->Unit(benchmark::kMicrosecond);
#endif

} // namespace

BENCHMARK_MAIN();
