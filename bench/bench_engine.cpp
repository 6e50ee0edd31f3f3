// SPDX-License-Identifier: Apache-2.0
// bench_engine: cost of one engine iteration, without the work that it simulates.
//
//   bench_engine [--benchmark_filter=REGEX] [--benchmark_repetitions=N]
//
// Time is per iteration of the engine. `by_hand_ns` is a plain loop that keeps the same accounts, measured next to each
// benchmark; `x_by_hand` is their ratio; `iterations/s` is a simulation's rate.
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/replan/once.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/world/simulated.hpp"

#include "virtual_policies.hpp"
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace {

using namespace sluice;

/// Processor time of this thread, so that a busy machine disturbs the ratios less.
double cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

constexpr Tokens never{std::int64_t{1} << 40}; // tokens of output: no request ends during the measurement

Roofline roofline() { return {llama3_8b(), a100_80()}; }

/// An order that the engine must assume to rotate, so it asks the policy in every step.
struct Asked : Fcfs {
  static constexpr bool steady = false;
};

// ---- by hand
// -----------------------------------------------------------------------------------------------------------

/// The same accounts without an engine: tokens, blocks, the ledger, the sums for the cost model, the clock, deliveries,
/// and ended requests. A program that needs only this composition would be written so.
class ByHand {
 public:
  explicit ByHand(std::size_t batch) : requests_(batch) {
    for (Request& request : requests_) {
      request.context = 17; // a prompt of 16 and its first token
      request.computed = 16;
      work_.decode_context += Tokens{request.context};
      used_ += layers;
    }
    work_.decodes = work_.samples = static_cast<std::int64_t>(batch);
  }

  // Not inlined, like the engine's step, so that both pay for one call.
  [[gnu::noinline]] bool step() {
    for (Request& request : requests_) {
      if (request.slack == 0) {
        if (used_ + layers > capacity) return false;
        used_ += layers;
        peak_ = std::max(peak_, used_);
        ++request.blocks;
        request.slack = block;
      }
      --request.slack;
    }
    now_ += cost_.step(work_).total(static_cast<int>(layers)).count();
    work_.decode_context += Tokens{work_.decodes};
    bool ended = false;
    for (Request& request : requests_) {
      ++request.computed;
      ++request.context;
      ++request.delivered;
      request.last_token = now_;
      ended |= request.context == request.end;
    }
    ++steps_;
    return !ended;
  }
  [[nodiscard]] double now() const { return now_; }

 private:
  static constexpr std::int64_t layers = 32, block = 16, capacity = std::int64_t{1} << 40;
  struct Request {
    std::int64_t context = 0, computed = 0, blocks = 1, slack = 0, delivered = 1;
    std::int64_t end = never.count();
    double last_token = 0;
  };
  std::vector<Request> requests_;
  Roofline cost_ = roofline();
  Work work_;
  std::int64_t used_ = 0, peak_ = 0, steps_ = 0;
  double now_ = 0;
};

double by_hand_ns(std::size_t batch) { // the median of five runs
  ByHand loop(batch);
  std::vector<double> ns;
  constexpr int rounds = 20'000;
  for (int run = 0; run < 5; ++run) {
    const double begin = cpu_ns();
    for (int i = 0; i < rounds; ++i)
      if (!loop.step()) std::abort();
    ns.push_back((cpu_ns() - begin) / rounds);
    benchmark::DoNotOptimize(loop.now());
  }
  std::sort(ns.begin(), ns.end());
  return ns[2];
}

void bm_by_hand(benchmark::State& state) {
  ByHand loop(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state)
    if (!loop.step()) std::abort();
  benchmark::DoNotOptimize(loop.now());
}
BENCHMARK(bm_by_hand)->ArgName("running")->Arg(4)->Arg(32);

// ---- engines
// -----------------------------------------------------------------------------------------------------------

template <class E>
E engine(int batch) {
  const ModelShape shape = llama3_8b();
  const Limits limits{.batch = batch, .max_context = Tokens{std::int64_t{1} << 50}};
  const Geometry geometry{shape.layers, shape.layer_block_bytes(limits.block_tokens), shape.layer_weight_bytes()};
  const LayerBlocks blocks{std::int64_t{1} << 50};
  if constexpr (std::is_same_v<typename E::cost_type, bench::VirtualCost>) {
    const bench::VirtualCost cost{std::make_shared<bench::CostObject<Roofline>>(roofline())};
    using World = BasicSimulated<bench::VirtualCost>;
    auto world = std::make_shared<bench::BackendObject<World>>(World{cost});
    return std::move(*E::make({limits, geometry, blocks, blocks, {}, cost, bench::VirtualBackend{std::move(world)}}));
  } else {
    return std::move(*E::make({limits, geometry, blocks, blocks, {}, roofline(), Simulated{roofline()}}));
  }
}

/// `running` decoding requests, and `waiting` ones that do not fit.
template <class E>
E crowded(int running, std::int64_t waiting, Tokens output = never) {
  E e = engine<E>(running);
  for (std::int64_t i = 0; i < running + waiting; ++i)
    if (!e.submit({.prompt = Tokens{16}, .output = output, .slo = {}})) std::abort();
  for (int i = 0; i < 64; ++i) e.step();
  return e;
}

template <class E>
void bm_step(benchmark::State& state) {
  const auto running = static_cast<int>(state.range(0));
  E e = crowded<E>(running, state.range(1));
  const double by_hand = by_hand_ns(static_cast<std::size_t>(running));
  const double begin = cpu_ns();
  for (auto _ : state)
    if (e.step() != Stepped::ran) std::abort();
  const double per_step = (cpu_ns() - begin) / static_cast<double>(state.iterations());
  state.counters["by_hand_ns"] = by_hand;
  state.counters["x_by_hand"] = per_step / by_hand;
  state.counters["iterations/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  if (e.view().running.size() != static_cast<std::size_t>(running)) std::abort();
}

/// Requests with 256 output tokens: a new one replaces each that ends, so that admission and planning have work.
template <class E>
void bm_turnover(benchmark::State& state) {
  const auto running = static_cast<int>(state.range(0));
  const std::int64_t waiting = state.range(1);
  E e = crowded<E>(running, waiting, Tokens{256});
  for (auto _ : state) {
    if (e.step() != Stepped::ran) std::abort();
    while (e.alive() < running + waiting)
      if (!e.submit({.prompt = Tokens{16}, .output = Tokens{256}, .slo = {}})) std::abort();
  }
  state.counters["iterations/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

using AskedEngine = Engine<Asked>;
using EveryStepEngine = Engine<EveryStep>;
using Observed = Engine<Summary>;
using Offloading = Engine<OffloadAll, Once>;
using VirtualEngine = bench::VirtualEngine<>;
using VirtualAsked = bench::VirtualEngine<Asked>;

#define WITH_WAITING ArgNames({"running", "waiting"})->Args({32, 0})->Args({32, 10'000})->Args({32, 100'000})
#define BATCH_OF_FOUR ArgNames({"running", "waiting"})->Args({4, 100})
BENCHMARK_TEMPLATE(bm_step, Engine<>)->WITH_WAITING->Args({4, 100});
BENCHMARK_TEMPLATE(bm_step, VirtualEngine)->WITH_WAITING->Args({4, 100});
BENCHMARK_TEMPLATE(bm_step, Observed)->WITH_WAITING;
// The slow path: every policy is asked in every step.
BENCHMARK_TEMPLATE(bm_step, AskedEngine)->WITH_WAITING->Args({4, 100});
BENCHMARK_TEMPLATE(bm_step, VirtualAsked)->WITH_WAITING->Args({4, 100});
BENCHMARK_TEMPLATE(bm_step, EveryStepEngine)->WITH_WAITING->Args({4, 100});
// KV is fetched in every iteration under one constant plan.
BENCHMARK_TEMPLATE(bm_step, Offloading)->BATCH_OF_FOUR->Args({32, 10'000});
BENCHMARK_TEMPLATE(bm_turnover, Engine<>)->WITH_WAITING;

} // namespace

BENCHMARK_MAIN();
