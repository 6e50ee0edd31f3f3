// SPDX-License-Identifier: Apache-2.0
// bench_overlap: measures, with real bytes on this machine, whether compute hides transfers as the evaluator predicts.
//
//   bench_overlap [--layers N] [--hidden N] [--context N] [--requests N] [--tokens N] [--turns N] [--system NAME]
//                 [--gb-per-s N]
//
// One compute thread decodes. For each system and link: the median step of AllResident while a copy engine moves the
// same bytes per step, at most those that the link lets through, to scratch memory (`resident`: link and compute share
// this machine's memory, so both runs must load it equally); and the evaluator's step, from that resident run's layer
// times and the configured link (`predicted`). If the prediction has no stall, a perfect pipeline hides the link; the
// aim is then offloaded <= 1.05 resident, and with stalls offloaded <= 1.10 predicted.
//
// A hypervisor that takes a virtual machine's cores away for some milliseconds stops two threads more often than one,
// and so distorts the comparison. Figures are therefore medians over the half of the turns with the least stolen time
// (over all turns if none was stolen, or the system does not report it), and ratios are medians of each turn's ratio;
// `stolen` is the largest value among these turns. Pie is left out: it moves nothing while its KV fits.
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/eigen/make_decoder.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/simulation.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"

#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

struct Bench {
  int layers = 8, hidden = 384, context = 384, requests = 4, tokens = 24, turns = 7;
  ModelWeights weights;
  Limits limits;
};

/// Durations of the iterations in which all requests decode.
struct Steps {
  using role = roles::Observer;
  using hears = Events<events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct State {
    std::vector<double> seconds, stalls, blocks, weight_bytes;
  };
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    if (record.decodes != record.tokens.count()) return;
    state.seconds.push_back(record.duration.count());
    state.stalls.push_back(record.stall.count());
    state.blocks.push_back(static_cast<double>(record.to_device.count()));
    state.weight_bytes.push_back(static_cast<double>(record.weights.count()));
  }
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// The layer times of a resident run.
struct Shown {
  using role = roles::Cost;
  struct State {};
  StepTime time;
  LinkCost told;
  [[nodiscard]] StepTime step(const Work&) const { return time; }
  [[nodiscard]] LinkCost link() const { return told; }
  [[nodiscard]] const Shown& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};

/// Copies the same number of bytes in every step, block by block, into scratch memory.
class Beside {
 public:
  Beside(std::int64_t bytes, std::int64_t block, LinkRates rates)
      : block_(block),
        copies_(bytes / std::max<std::int64_t>(1, block)),
        from_(1 << 26),
        to_(1 << 26),
        engine_(std::make_unique<CopyEngine<Beside>>(*this, rates)) {}
  ~Beside() { engine_.reset(); }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  void step() {
    {
      const std::lock_guard lock{mutex_};
      left_ += copies_; // the previous step's remainder is moved too
    }
    engine_->wake();
  }
  std::optional<Copy> next(Way way) {
    const std::lock_guard lock{mutex_};
    if (way != Way::to_device || left_ == 0) return std::nullopt;
    --left_;
    at_ = (at_ + block_) % (static_cast<std::int64_t>(from_.size()) - block_);
    return Copy{from_.data() + at_, to_.data() + at_, block_};
  }
  void ended(Way, const Copy&, CopyOutcome) {}

 private:
  std::mutex mutex_;
  std::int64_t block_, copies_, left_ = 0, at_ = 0;
  std::vector<std::byte> from_, to_;
  std::unique_ptr<CopyEngine<Beside>> engine_;
};

/// CPU time that the hypervisor has stolen so far, if Linux reports it; else 0.
double stolen_s() {
  std::ifstream file{"/proc/stat"};
  std::string cpu;
  double ticks[8] = {}; // user, nice, system, idle, iowait, irq, softirq, steal
  file >> cpu;
  for (double& tick : ticks) file >> tick;
  return file ? ticks[7] / static_cast<double>(sysconf(_SC_CLK_TCK)) : 0;
}

struct Measured {
  double step = 0, stall = 0, bytes = 0;
  StepTime time;
};

/// Median steps of an engine on this machine. Calls `before_step` before each iteration.
template <class E>
Measured run(const Bench& bench, double kv_share, LinkRates link, const Shown& believed,
             const std::function<void()>& before_step) {
  using Observed = With<E, Cpu, Shown, Steps>;
  const ModelShape& shape = bench.weights.config.shape;
  std::unique_ptr<Decoder> decoder = make_decoder(bench.weights, bench.limits.block_tokens, 1);
  const std::int64_t block = kv_block_floats(shape, bench.limits.block_tokens) * 4;
  const std::int64_t each = (bench.context + bench.tokens + 15) / 16 * shape.layers;
  MachineSetup setup;
  setup.limits = bench.limits;
  setup.link = link;
  setup.host_blocks = LayerBlocks{2 * each * bench.requests};
  setup.skips_idle = true;
  const auto kv = static_cast<std::int64_t>(kv_share * static_cast<double>(each * bench.requests)) + shape.layers;
  setup.device_memory = Bytes{(kv - device_kv_blocks(bench.weights, *decoder, setup).count()) * block};
  const LayerBlocks device = device_kv_blocks(bench.weights, *decoder, setup);
  Expected<std::shared_ptr<CpuMachine>> machine = make_cpu_machine(bench.weights, std::move(decoder), setup);
  if (!machine) {
    fmt::print(stderr, "{}\n", machine.error().line());
    return {};
  }
  typename Observed::Config config{.limits = bench.limits,
                                   .geometry = {shape.layers, Bytes{block}, bench.weights.layout.bytes, Bytes{0}},
                                   .device_blocks = device,
                                   .host_blocks = setup.host_blocks,
                                   .cost = believed,
                                   .backend = Cpu{*machine}};
  Expected<Observed> engine = Observed::make(std::move(config));
  if (!engine) {
    fmt::print(stderr, "{}\n", engine.error().line());
    return {};
  }
  for (int i = 0; i < bench.requests; ++i) {
    RequestSpec spec;
    spec.prompt = Tokens{bench.context};
    spec.output = Tokens{bench.tokens};
    const Expected<RequestId> id = engine->submit(spec);
    if (!id) continue;
    TokenRequest request;
    request.ends = false;
    for (int t = 0; t < bench.context; ++t) request.tokens.push_back((t * 7 + i * 13) % shape.vocabulary);
    (*machine)->enter(*id, std::move(request));
  }
  std::vector<double> layer, before, after;
  do {
    before_step();
    const std::span<const LayerTimes> times = (*machine)->layer_times();
    if (!times.empty())
      for (const LayerTimes& one : times) layer.push_back(one.end_s - one.start_s);
  } while (engine->step() == Stepped::ran);
  const auto& steps = engine->template observed<Steps>();
  Measured measured;
  measured.step = median(steps.seconds);
  measured.stall = median(steps.stalls);
  measured.bytes = median(steps.blocks) * static_cast<double>(block) + median(steps.weight_bytes);
  measured.time.layer = Seconds{median(layer)};
  measured.time.after = Seconds{std::max(0.0, measured.step - measured.stall - median(layer) * shape.layers)};
  return measured;
}

/// The evaluator's prediction for the same requests.
template <class E>
Measured predict(const Bench& bench, double kv_share, const Shown& world) {
  using Observed = With<E, BasicSimulated<Shown>, Shown, Steps>;
  const ModelShape& shape = bench.weights.config.shape;
  const std::int64_t block = kv_block_floats(shape, bench.limits.block_tokens) * 4;
  const std::int64_t each = (bench.context + bench.tokens + 15) / 16 * shape.layers;
  const auto kv = static_cast<std::int64_t>(kv_share * static_cast<double>(each * bench.requests)) + shape.layers;
  Expected<Observed> engine =
      Observed::make({.limits = bench.limits,
                      .geometry = {shape.layers, Bytes{block}, bench.weights.layout.bytes, Bytes{0}},
                      .device_blocks = LayerBlocks{kv},
                      .host_blocks = LayerBlocks{2 * each * bench.requests},
                      .cost = world,
                      .backend = BasicSimulated<Shown>{world}});
  if (!engine) return {};
  for (int i = 0; i < bench.requests; ++i) {
    RequestSpec spec;
    spec.prompt = Tokens{bench.context};
    spec.output = Tokens{bench.tokens};
    (void)engine->submit(spec);
  }
  while (engine->step() == Stepped::ran) {
  }
  const auto& steps = engine->template observed<Steps>();
  return {median(steps.seconds), median(steps.stalls), 0, {}};
}

/// One turn: the three measurements, one after the other.
struct Turn {
  double stolen = 0; ///< share of the turn's time
  double resident = 0, offloaded = 0, predicted = 0, stall = 0;
};

template <class E>
void compare(const Bench& bench, const char* name, double kv_share, double rate) {
  LinkRates link;
  link.to_device_bytes_per_s = link.to_host_bytes_per_s = rate;
  Shown believed;
  believed.told.rate = BytesPerSecond{rate};
  believed.time.layer = Seconds{1e-3};
  std::vector<Turn> turns;
  double bytes = 0;
  for (int i = 0; i < bench.turns; ++i) {
    Turn turn;
    const double stolen = stolen_s();
    const std::int64_t began = WallClock::now();
    const Measured off = run<E>(bench, kv_share, link, believed, [] {});
    bytes = off.bytes;
    const std::int64_t block = kv_block_floats(bench.weights.config.shape, bench.limits.block_tokens) * 4;
    Beside async(static_cast<std::int64_t>(bytes), block, link);
    const Measured in = run<Engine<>>(bench, 1.05, {}, believed, [&async] { async.step(); });
    turn.stolen = (stolen_s() - stolen) / (1e-9 * static_cast<double>(WallClock::now() - began));
    Shown world = believed;
    world.time = in.time;
    const Measured foreseen = predict<E>(bench, kv_share, world);
    turn.resident = in.step;
    turn.offloaded = off.step;
    turn.predicted = foreseen.step;
    turn.stall = foreseen.stall;
    turns.push_back(turn);
  }
  std::stable_sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) { return a.stolen < b.stolen; });
  if (turns.back().stolen > turns.front().stolen) turns.resize((turns.size() + 1) / 2);
  const auto of = [&](const auto& figure) {
    std::vector<double> values;
    for (const Turn& turn : turns) values.push_back(figure(turn));
    return median(values);
  };
  const double resident = of([](const Turn& turn) { return turn.resident; });
  const double offloaded = of([](const Turn& turn) { return turn.offloaded; });
  const double predicted = of([](const Turn& turn) { return turn.predicted; });
  const double stall = of([](const Turn& turn) { return turn.stall; });
  fmt::print("| {} | {:.2g} GB/s | {:.1f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} | {:.0f} % |\n", name,
             rate * 1e-9, bytes / (1 << 20), 1e3 * resident, 1e3 * offloaded, 1e3 * predicted,
             of([](const Turn& turn) { return turn.offloaded / turn.resident; }),
             of([](const Turn& turn) { return turn.offloaded / turn.predicted; }),
             stall <= 0.002 * predicted ? "hidden" : "not hidden", 100 * turns.back().stolen);
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  Bench bench;
  CLI::App app{"Compares offloaded steps with resident ones and with the evaluator's"};
  app.add_option("--layers", bench.layers)->check(CLI::Range(2, 128));
  app.add_option("--hidden", bench.hidden)->check(CLI::Range(64, 8192));
  app.add_option("--context", bench.context)->check(CLI::Range(16, 1 << 16));
  app.add_option("--requests", bench.requests)->check(CLI::Range(1, 64));
  app.add_option("--tokens", bench.tokens)->check(CLI::Range(4, 1000));
  app.add_option("--turns", bench.turns, "turns of each row")->check(CLI::Range(1, 1000));
  std::string only;
  double only_link = 0;
  app.add_option("--system", only, "only this system");
  app.add_option("--gb-per-s", only_link, "only a link of this rate")->check(CLI::PositiveNumber);
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;
  DecoderConfig config;
  config.shape.layers = bench.layers;
  config.shape.hidden = bench.hidden / 64 * 64;
  config.shape.heads = config.shape.hidden / 64;
  config.shape.kv_heads = config.shape.heads;
  config.shape.head_dim = 64;
  config.shape.mlp = 3 * config.shape.hidden;
  config.shape.vocabulary = 1024;
  config.max_positions = 1 << 16;
  bench.weights = random_weights(config, 1);
  bench.limits.batch = bench.requests;
  bench.limits.batch_tokens = Tokens{512};
  fmt::print("{} layers of {}, {} requests of {} tokens, one compute thread\n\n", bench.layers, config.shape.hidden,
             bench.requests, bench.context);
  fmt::print(
      "| system | link | MiB a step | resident, ms | offloaded, ms | predicted, ms | to resident | to predicted | "
      "| stolen |\n|---|---|---:|---:|---:|---:|---:|---:|---|---:|\n");
  bool any = false;
  const auto row = [&]<class System>(std::type_identity<System>, const char* name, double kv_share, double rate) {
    if (!only.empty() && only != name) return;
    any = true;
    compare<System>(bench, name, kv_share, rate);
  };
  const std::vector<double> rates = only_link > 0 ? std::vector{only_link * 1e9} : std::vector{4e9, 2e9, 1e9, 0.5e9};
  for (const double rate : rates) {
    row(std::type_identity<DeepSpeedInference>{}, "DeepSpeedInference", 0.4, rate);
    row(std::type_identity<FlexGen>{}, "FlexGen", 0.6, rate);
    row(std::type_identity<With<OrbitFlowPool, InStep>>{}, "OrbitFlowPool", 0.7, rate);
  }
  if (any) return 0;
  fmt::print(stderr,
             "bench_overlap: --system {}: no such system; there are DeepSpeedInference, FlexGen and OrbitFlowPool\n",
             only);
  return 2;
}
