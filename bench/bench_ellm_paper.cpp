// SPDX-License-Identifier: Apache-2.0
// eLLM's comparison on the paper's setup (section 6): headline, ablations, wrong costs, units of F layers, and the
// savings that the paper's own equations allow; and its motivation (section 2): a fixed share without KV, for a whole
// run and from the middle of one, and fixed splits of a fused kernel. Prints the tables of docs/reproductions.md.
#include "sluice/engine/systems/ellm.hpp"
#include "sluice/engine/systems/hcache.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/placement/ellm_equations.hpp"
#include "sluice/simulation.hpp"

#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace {

using namespace sluice;

/// Figures that a run's metrics lack: the uncached share, the duration of decoding, and the memory that units waste.
struct Uncached {
  using role = roles::Observer;
  using hears = Events<events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct State {
    double blocks = 0, uncached = 0;      ///< token blocks, summed over iterations
    double room = 0, needed = 0;          ///< device memory for KV and workspace, and its part that holds tokens
    double decode_s = 0, predicted_s = 0; ///< of iterations without prompts
    std::int64_t decodes = 0, iterations = 0;
  };
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    constexpr Tokens block{16};
    const int layers = 40;
    std::int64_t heads = 0;
    int period = 0;
    for (const Claim& claim : record.batch) {
      const RequestRow& row = record.rows[index(claim.slot)];
      const TokenBlocks head = row.holding.all_resident() ? TokenBlocks{0} : row.holding.head_blocks(row.blocks, block);
      state.blocks += static_cast<double>(row.blocks.count());
      heads += head.count();
      state.needed += static_cast<double>((row.computed + claim.tokens).count() - 16 * head.count()) / 16 * layers;
      if (head.count() == 0) continue;
      const int recomputed = row.holding.host.lowest();
      const int next = (row.holding.nowhere - LayerSet::all(recomputed)).lowest();
      period = next > 0 ? next : layers;
    }
    state.uncached += static_cast<double>(heads);
    state.needed += static_cast<double>(heads) * 2 * period;
    state.room += static_cast<double>(record.device_used.count()) +
                  (heads > 0 ? static_cast<double>(record.plan->in_flight.count()) : 0.0);
    ++state.iterations;
    if (record.tokens.count() > record.decodes) return;
    ++state.decodes;
    state.decode_s += record.duration.count();
    state.predicted_s += record.plan->predicted_step.count();
  }
};

struct Setup {
  Server server;
  GeneratorSpec requests;
  double slo_s = 0.05;
  std::uint64_t seed = 1;
};

struct Row {
  Metrics metrics;
  Uncached::State seen;
};

template <class E, class Change>
Row run(const Setup& setup, Change&& change) {
  using Observed = With<E, Summary, Uncached>;
  typename Observed::Config config = configure<Observed>(setup.server);
  change(config);
  Expected<Observed> engine = Observed::make(std::move(config));
  if (!engine) {
    fmt::print(stderr, "{}\n", engine.error().line());
    std::exit(2);
  }
  Shaped<Generator> requests{Generator{setup.requests, setup.seed}, {.slo = {.tbt = Seconds{setup.slo_s}}}};
  if (const Status status = simulate(*engine, requests); !status.ok()) {
    fmt::print(stderr, "{}\n", status.error().line());
    std::exit(2);
  }
  return {measure(engine->template observed<Summary>(), engine->now()), engine->template observed<Uncached>()};
}
template <class E>
Row run(const Setup& setup) {
  return run<E>(setup, [](auto&) {});
}

void head() {
  fmt::print("| system | tokens/s | to vLLM | mean TTFT, s | mean TPOT, ms | TPOT met | decode, ms | planned, ms | "
             "uncached | GB an "
             "iteration | preempted |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
}
void print(const char* name, const Row& row, const Row& base) {
  const Metrics& m = row.metrics;
  const auto& s = row.seen;
  fmt::print("| {} | {:.0f} | {:.2f} | {:.0f} | {:.1f} | {:.1f} % | {:.1f} | {:.1f} | {:.1f} % | {:.2f} | {} |\n", name,
             m.throughput_tokens_per_s, m.throughput_tokens_per_s / base.metrics.throughput_tokens_per_s, m.mean_ttft_s,
             1e3 * m.mean_tpot_s, 100 * m.tpot_attainment, 1e3 * s.decode_s / static_cast<double>(s.decodes),
             1e3 * s.predicted_s / static_cast<double>(s.decodes), 100 * s.uncached / s.blocks,
             static_cast<double>(m.bytes_to_device) / 1e9 / static_cast<double>(s.iterations), m.times_preempted);
}

/// The planner's device: its rates of compute, memory and link are wrong by a factor.
Device off_by(Device device, double factor) {
  device.half_precision_peak = device.half_precision_peak * factor;
  device.memory_bandwidth = device.memory_bandwidth * factor;
  device.host_to_device = device.host_to_device * factor;
  return device;
}

// Section 2: a share without KV that nothing optimises.

/// As many requests as fit with `*share` of each one's tokens without KV; an optimizer of TokenWise.
struct FixedShare {
  const double* share = nullptr;
  template <BatchShareProblem P>
  [[nodiscard]] BatchShare operator()(const P& problem) const {
    BatchShare answer{false, 0, *share, 0};
    for (std::int64_t requests = std::max<std::int64_t>(1, problem.least); requests <= problem.most; ++requests) {
      const auto batch = static_cast<double>(requests);
      if (problem.room(batch, *share) > problem.room_budget || problem.host_room(batch, *share) > problem.host_budget)
        break;
      answer.requests = requests;
    }
    if (answer.requests == 0) return answer;
    answer.seconds = problem.seconds(static_cast<double>(answer.requests), *share);
    answer.feasible = answer.seconds <= problem.limit_s(static_cast<double>(answer.requests));
    return answer;
  }
};
using FixedEllm = With<Ellm, BasicTokenWise<FixedShare>>;

/// The roofline with a fused kernel whose threads are split as given, whatever the work, and never run one after the
/// other: section 2.4's allocations. The library's split follows the work (`fused_seconds`).
class FixedSplit {
 public:
  using role = roles::Cost;
  struct State {};

  double decoding = 0.5; ///< share of the threads for K2, which decodes

  FixedSplit(const ModelShape& shape, const Device& device)
      : roofline_(shape, device),
        work_(shape),
        flops_(device.compute_rate(RooflineEfficiency{}.compute)),
        bytes_(device.memory_rate(RooflineEfficiency{}.bandwidth)) {}

  [[nodiscard]] StepTime step(const Work& work) const {
    StepTime time = roofline_.step(work);
    if (work.rebuilt.nothing() || work.tokens() == Tokens{0}) return time;
    const LayerWork::Attention attention = LayerWork::attention(work, work.tokens());
    const double own_s =
        ((work_.linear_flops(work.tokens()) + work_.flops_per_pair() * attention.pairs) / flops_).count();
    const double rebuild_s = (work_.rebuild_flops(work.rebuilt) / flops_).count();
    const double memory = work_.rebuild_bytes(work.rebuilt) + work_.weight_bytes(work.tokens()) +
                          static_cast<double>(work_.kv_bytes_per_token().count()) * attention.kv_tokens;
    time.layer = Seconds{std::max({rebuild_s / (1 - decoding), own_s / decoding, memory / bytes_.count()})};
    return time;
  }
  [[nodiscard]] LinkCost link() const { return roofline_.link(); }
  [[nodiscard]] const FixedSplit& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}

 private:
  Roofline roofline_;
  LayerWork work_;
  FlopsPerSecond flops_;
  BytesPerSecond bytes_;
};

/// What happens before and after the moment at which Fig. 3b changes the share: means over time, and first tokens.
struct BeforeAndAfter {
  using role = roles::Observer;
  using hears = Events<events::Iterated, events::Delivered>;
  static constexpr bool wants_timeline = false;
  static constexpr double from_s = 100, change_s = 200, until_s = 400;
  struct Window {
    double running = 0, busy_s = 0, stall_s = 0; ///< requests x seconds; time of iterations, and stalled
    std::int64_t tokens = 0, first = 0;
    double ttft_s = 0; ///< sum over `first`
    [[nodiscard]] double mean_running() const { return running / busy_s; }
  };
  struct State {
    std::array<Window, 2> windows;
  };
  static Window* window_of(State& state, double now_s) {
    if (now_s < from_s || now_s >= until_s) return nullptr;
    return &state.windows[now_s < change_s ? 0 : 1];
  }
  void on(State& state, const events::Iterated& event) const {
    Window* window = window_of(state, event.record.start.count());
    if (window == nullptr) return;
    window->running += static_cast<double>(event.record.running) * event.record.duration.count();
    window->busy_s += event.record.duration.count();
    window->stall_s += event.record.stall.count();
  }
  void on(State& state, const events::Delivered& event) const {
    Window* window = window_of(state, event.when.count());
    if (window == nullptr) return;
    window->tokens += event.count.count();
    if (event.row.delivered != event.count) return;
    ++window->first;
    window->ttft_s += (event.when - event.row.spec.arrival).count();
  }
};

void print_shares(const Setup& setup, const Row& base) {
  fmt::print(
      "\nFig. 4: a fixed share without KV; no SLO bounds the batch. Free: recomputing, prompts and transfers take "
      "no time\n\n"
      "| without KV | kept so | requests running | tokens/s | to vLLM | mean TTFT, s | mean TPOT, ms | GB an "
      "iteration | tokens/s, free | to vLLM | mean TTFT, s |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  Setup free = setup;
  free.server.device.half_precision_peak = free.server.device.half_precision_peak * 1e6;
  free.server.device.host_to_device = free.server.device.host_to_device * 1e6;
  const Row free_base = run<VllmRecompute>(free);
  const auto row = [&](const std::string& name, const Row& here, const Row& there) {
    const Metrics& m = here.metrics;
    const auto per_iteration = [&here](auto total) {
      return static_cast<double>(total) / static_cast<double>(here.seen.iterations);
    };
    fmt::print(
        "| {} | {:.1f} % | {:.1f} | {:.0f} | {:.2f} | {:.0f} | {:.1f} | {:.2f} | {:.0f} | {:.2f} | {:.0f} |\n", name,
        100 * here.seen.uncached / here.seen.blocks, per_iteration(m.tokens_delivered), m.throughput_tokens_per_s,
        m.throughput_tokens_per_s / base.metrics.throughput_tokens_per_s, m.mean_ttft_s, 1e3 * m.mean_tpot_s,
        per_iteration(m.bytes_to_device) / 1e9, there.metrics.throughput_tokens_per_s,
        there.metrics.throughput_tokens_per_s / free_base.metrics.throughput_tokens_per_s, there.metrics.mean_ttft_s);
  };
  row("vLLM, recomputation", base, free_base);
  row("vLLM, swapping", run<VllmSwap>(setup), run<VllmSwap>(free));
  for (const double share : {0.02, 0.05, 0.1, 0.2, 0.4, 0.5}) {
    const auto fixed = [&share](auto& c) { c.placement.optimizer.share = &share; };
    row(fmt::format("{:.0f} %", 100 * share), run<FixedEllm>(setup, fixed), run<FixedEllm>(free, fixed));
  }
}

void print_change(Setup setup) {
  setup.requests.arrivals.rate = 25; // the trace's own, 6.1
  using E = With<FixedEllm, BeforeAndAfter>;
  fmt::print(
      "\nFig. 3b: half of all KV dropped at 200 s, 25 requests a second; means from 100 to 200 s, and from 200 to "
      "400 s\n\n"
      "| without KV after 200 s | requests running | after | tokens/s | after | first tokens after | their mean "
      "TTFT, s | device busy after |\n|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const double after : {0.0, 0.5}) {
    double share = 0;
    typename E::Config config = configure<E>(setup.server);
    config.placement.optimizer.share = &share;
    Expected<E> engine = E::make(std::move(config));
    if (!engine) {
      fmt::print(stderr, "{}\n", engine.error().line());
      std::exit(2);
    }
    Shaped<Generator> requests{Generator{setup.requests, setup.seed}, {.slo = {.tbt = Seconds{setup.slo_s}}}};
    const auto tell = [&](const SimulationProgress& progress) {
      if (progress.now.count() >= BeforeAndAfter::change_s) share = after;
      return progress.now.count() < BeforeAndAfter::until_s;
    };
    if (const Status status = simulate(*engine, requests, tell, 1); !status.ok()) {
      fmt::print(stderr, "{}\n", status.error().line());
      std::exit(2);
    }
    const auto& [first, second] = engine->template observed<BeforeAndAfter>().windows;
    fmt::print("| {:.0f} % | {:.1f} | {:.1f} | {:.0f} | {:.0f} | {} | {:.0f} | {:.0f} % |\n", 100 * after,
               first.mean_running(), second.mean_running(), static_cast<double>(first.tokens) / 100,
               static_cast<double>(second.tokens) / 200, second.first,
               second.ttft_s / static_cast<double>(second.first), 100 * (1 - second.stall_s / second.busy_s));
  }
}

void print_fusion(Setup setup) {
  setup.server.device.host_to_device = setup.server.device.host_to_device * 1e6;
  fmt::print("\nFig. 5b: 40 % without KV, and the threads of K2, which decodes, and of K1, which recomputes; transfers "
             "take no time\n\n"
             "| kernel | tokens/s | to unfused | mean TPOT, ms | to unfused | mean TTFT, s |\n"
             "|---|--:|--:|--:|--:|--:|\n");
  const double share = 0.4;
  const auto fixed = [&share](auto& c) { c.placement.optimizer.share = &share; };
  const Row unfused = run<FixedEllm>(setup, [&](auto& c) {
    fixed(c);
    c.cost = Roofline(setup.server.model, setup.server.device, {}, Rebuilding::one_by_one);
    c.backend = Simulated(c.cost);
  });
  const auto row = [&unfused](const std::string& name, const Row& of) {
    const Metrics& m = of.metrics;
    const Metrics& base = unfused.metrics;
    fmt::print("| {} | {:.1f} | {:.2f} | {:.0f} | {:.2f} | {:.0f} |\n", name, m.throughput_tokens_per_s,
               m.throughput_tokens_per_s / base.throughput_tokens_per_s, 1e3 * m.mean_tpot_s,
               m.mean_tpot_s / base.mean_tpot_s, m.mean_ttft_s);
  };
  row("unfused", unfused);
  for (const double decoding : {0.5, 0.25})
    row(fmt::format("fused, {:g}:{:g}", decoding, 1 - decoding),
        run<With<FixedEllm, FixedSplit, BasicSimulated<FixedSplit>>>(setup, [&](auto& c) {
          fixed(c);
          c.cost.decoding = decoding;
          c.backend = BasicSimulated<FixedSplit>(c.cost);
        }));
  row("fused, split by the two kernels' work", run<FixedEllm>(setup, fixed));
}

template <class Layout>
void print_units(const Setup& setup, int units, double map_share) {
  const Row row = run<With<Ellm, Layout>>(setup);
  const double rate = row.metrics.throughput_tokens_per_s;
  fmt::print("| {} | {:.2f} % | {:.0f} | {} | {} |\n", units, 100 * (1 - row.seen.needed / row.seen.room), rate,
             map_share > 0 ? fmt::format("{:.2f} %", 100 * map_share) : std::string{"not stated"},
             map_share > 0 ? fmt::format("{:.0f}", rate * (1 - map_share)) : std::string{});
}

void print_equations(const ModelShape& model, const Device& device, TokenBlocks budget) {
  fmt::print("| form | decode of {} requests, ms | KV of 36 % recomputed, ms | eq. 5 at b = 8, 32; r = 0, ms | the "
             "same, r = 0.36 |\n"
             "|---|--:|--:|--:|--:|\n",
             32);
  const struct {
    const char* name;
    EllmForm form;
  } forms[] = {{"as printed", ellm_printed},
               {"(3): one output row a request", {false, true, true, true, true}},
               {"(2), (3): no output for recomputed", {false, false, true, true, true}},
               {"corrected", ellm_corrected}};
  for (const auto& each : forms) {
    const EllmEquations equations(model, each.form);
    const auto batch_of = [&](std::int64_t count) {
      BatchSums batch;
      for (std::int64_t i = 0; i < count; ++i) batch.add(Tokens{budget.count() * 16 / 32});
      return batch;
    };
    const auto ms = [&](std::int64_t count, double r) {
      return 1e3 * equations.seconds_per_request(batch_of(count), r, device.half_precision_peak);
    };
    fmt::print("| {} | {:.1f} | {:.0f} | {:.2f}, {:.2f} | {:.1f} |\n", each.name,
               1e3 * equations.decode_volume(batch_of(32)) / device.half_precision_peak.count(),
               1e3 * equations.recompute_volume(batch_of(32), 0.36) / device.half_precision_peak.count(), ms(8, 0),
               ms(32, 0), ms(32, 0.36));
  }
}

} // namespace

int main(int argc, char** argv) {
  std::int64_t requests = 1500;
  std::uint64_t seed = 1;
  CLI::App app{"eLLM's comparison: Llama2-13B on an A100, ShareGPT's lengths, 50 requests a second, 50 ms a token"};
  app.add_option("--requests", requests, "how many");
  app.add_option("--seed", seed, "of the workload");
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;

  const std::string spec = fmt::format("sharegpt:rate=50,requests={},cv=1.69,longest=3600", requests);
  const Expected<GeneratorSpec> generator = parse_generator(spec);
  if (!generator) {
    fmt::print(stderr, "{}\n", generator.error().line());
    return 2;
  }
  Setup setup{
      {llama2_13b(), a100_80(), TokenBlocks{0}, {.batch = 512, .batch_tokens = Tokens{2048}}}, *generator, 0.05, seed};
  Server& server = setup.server;
  server.device.host_memory = Bytes{40'000'000'000};                                             // for KV (6.1)
  const Bytes room{server.device.memory.count() / 10 * 9 - server.model.weight_bytes().count()}; // vLLM's default share
  server.kv_blocks = TokenBlocks{room / server.model.token_block_bytes(Tokens{16})};
  fmt::print("{} on {}, {} token blocks of KV; {}, seed {}, {} ms a token\n\n", server.model.name, server.device.name,
             server.kv_blocks.count(), spec, seed, 1e3 * setup.slo_s);

  const Row base = run<VllmRecomputeSized>(setup);
  const Row swapped = run<VllmSwapSized>(setup);
  const Row hcache = run<HCache>(setup);
  const Row ellm = run<Ellm>(setup);
  head();
  print("VllmRecomputeSized", base, base);
  print("VllmSwapSized", swapped, base);
  print("HCache", hcache, base);
  print("Ellm", ellm, base);
  print("Ellm, the prefix passed", run<Ellm>(setup, [](auto& c) { c.placement.states = PrefixStates::passed; }), base);
  print("Ellm, free lunch",
        run<Ellm>(setup,
                  [](auto& c) {
                    c.placement.states = PrefixStates::on_host;
                    c.geometry.layer_hidden_bytes = Bytes{0};
                  }),
        base);
  print("Ellm, swapped a layer ahead at most (NextLayer)", run<With<Ellm, NextLayer>>(setup), base);
  print("Ellm, not fused",
        run<Ellm>(setup,
                  [&](auto& c) {
                    c.cost = Roofline(server.model, server.device, {}, Rebuilding::one_by_one);
                    c.backend = Simulated(c.cost);
                  }),
        base);
  print("Ellm, victims moved to the host", run<With<Ellm, MoveToHost>>(setup), base);

  fmt::print("\nThe planner's rates off by:\n\n");
  head();
  for (const double factor : {0.8, 1.0, 1.2})
    print(fmt::format("{:+.0f} %", 100 * (factor - 1)).c_str(),
          run<Ellm>(setup, [&](auto& c) { c.cost = Roofline(server.model, off_by(server.device, factor)); }), ellm);

  fmt::print("\nUnits of F layers:\n\n| F | fragmentation | tokens/s | map overhead (paper) | tokens/s with it |\n"
             "|---|--:|--:|--:|--:|\n");
  print_units<LayerGroups<1>>(setup, 1, 0);
  print_units<LayerGroups<2>>(setup, 2, 0.0667);
  print_units<LayerGroups<4>>(setup, 4, 0.0384);
  print_units<LayerGroups<8>>(setup, 8, 0.0147);

  // Tests whether eLLM loses by newcomers that grow; with these lengths they hardly grow.
  const std::string grown = fmt::format(
      "gamma:rate=50,cv=1.69,requests={},prompt=lognormal(1346,1.0),output=lognormal(222,1.0),longest=3600", requests);
  Setup exchanged = setup;
  if (Expected<GeneratorSpec> other = parse_generator(grown); other) exchanged.requests = *std::move(other);
  fmt::print("\nThe lengths of prompts and outputs exchanged: {}\n\n", grown);
  head();
  const Row exchanged_base = run<VllmRecomputeSized>(exchanged);
  print("VllmRecomputeSized", exchanged_base, exchanged_base);
  print("VllmSwapSized", run<VllmSwapSized>(exchanged), exchanged_base);
  print("HCache", run<HCache>(exchanged), exchanged_base);
  print("Ellm", run<Ellm>(exchanged), exchanged_base);

  Setup unbounded = setup; // section 2 states no SLO
  unbounded.slo_s = 1e6;
  print_shares(unbounded, run<VllmRecompute>(unbounded));
  print_change(unbounded);
  print_fusion(unbounded);

  fmt::print("\nThe equations, for 32 requests that fill the memory, at the device's peak:\n\n");
  print_equations(server.model, server.device, server.kv_blocks);
  return 0;
}
