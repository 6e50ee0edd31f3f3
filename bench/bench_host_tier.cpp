// SPDX-License-Identifier: Apache-2.0
// bench_host_tier: measures on this machine what KV found in the host tier saves, and what keeping it costs.
//
//   bench_host_tier [--layers N] [--hidden N] [--context N] [--rounds N] [--waiters N] [--only PART]
//
// One compute thread. The link's rates are multiples of B* = bytes of KV per token x prompt tokens per second, above
// which loading is faster than computing; B* is measured first, and for TTFT in each round. Each round measures all
// that a row compares, one after the other, and a row has the medians of the rounds' ratios, so that other load on the
// machine affects both sides.
//
// - TTFT: a prompt of which 90 % or more is in the host tier. One machine loads all of that; another one asks IfFaster,
//   whose planner knows the rates of the link and of prompts from which B* follows. Both are compared with a machine
//   that computes the prompt. The first is also compared with the evaluator, which gets the layer times of a run whose
//   link has no limit.
// - Waiters: the slowest of many requests with one such beginning that arrive together, over one request alone.
// - Write-through: the time of requests that reuse nothing with a host tier, over the time without.
#include "sluice/engine/caching.hpp"
#include "sluice/model/checkpoint/tiny.hpp"
#include "sluice/model/decoder/eigen/make_decoder.hpp"
#include "sluice/policy/caching/if_faster.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/simulation.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"

#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

struct Bench {
  int layers = 8, hidden = 384, context = 2048, rounds = 5, waiters = 50;
  ModelWeights weights;
  Limits limits;
  Seconds token{0}; ///< to compute a token of a prompt; measured first

  [[nodiscard]] Bytes block() const { return Bytes{kv_block_floats(weights.config.shape, limits.block_tokens) * 4}; }
  [[nodiscard]] std::int64_t token_bytes() const { return block().count() * layers / limits.block_tokens.count(); }
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Layer times that were measured, and the link.
struct Measured {
  using role = roles::Cost;
  struct State {};
  StepTime time;
  LinkCost link_cost;
  Seconds layer_of_token{0}; ///< in addition, for each token
  [[nodiscard]] StepTime step(const Work& work) const {
    StepTime sum = time;
    sum.layer += static_cast<double>(work.tokens().count()) * layer_of_token;
    return sum;
  }
  [[nodiscard]] LinkCost link() const { return link_cost; }
  [[nodiscard]] const Measured& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};

/// First tokens' times, from the arrival on.
struct FirstTokens {
  using role = roles::Observer;
  using hears = Events<events::Delivered>;
  static constexpr bool wants_timeline = false;
  struct State {
    std::vector<double> seconds;
  };
  void on(State& state, const events::Delivered& event) const {
    if (event.row.delivered.count() == 1) state.seconds.push_back((event.when - event.row.spec.arrival).count());
  }
};

template <class T>
T must(Expected<T> value) {
  if (value) return *std::move(value);
  fmt::print(stderr, "bench_host_tier: {}\n", value.error().line());
  std::exit(1);
}

using Prompt = std::vector<std::int32_t>;

double cpu_s(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A machine with its engine. `rate` 0: a link without a limit; `tier_tokens`: of the host tier.
template <class Caching>
class BasicRunner {
 public:
  using E = With<Engine<>, Cpu, Measured, FirstTokens, Caching>;

  BasicRunner(const Bench& bench, double rate, std::int64_t tier_tokens, std::int64_t device_tokens) {
    std::unique_ptr<Decoder> decoder = make_decoder(bench.weights, bench.limits.block_tokens, 1);
    const std::int64_t each = bench.limits.block_tokens.count();
    MachineSetup setup;
    setup.limits = bench.limits;
    setup.link = {rate, rate, true};
    setup.skips_idle = true;
    setup.tier_blocks = LayerBlocks{tier_tokens / each * bench.layers};
    const std::int64_t kv = (device_tokens / each + bench.limits.batch + 1) * bench.layers;
    setup.device_memory = bench.block() * (kv - device_kv_blocks(bench.weights, *decoder, setup).count());
    const LayerBlocks device = device_kv_blocks(bench.weights, *decoder, setup);
    machine_ = must(make_cpu_machine(bench.weights, std::move(decoder), setup));
    Measured believed;
    believed.layer_of_token = bench.token / bench.layers;
    believed.link_cost.rate = BytesPerSecond{rate > 0 ? rate : 1e10};
    engine_.emplace(must(E::make({.limits = bench.limits,
                                  .geometry = {bench.layers, bench.block(), bench.weights.layout.bytes, Bytes{0}},
                                  .device_blocks = device,
                                  .cost = believed,
                                  .backend = Cpu{machine_}})));
    (void)engine_->load();
  }

  /// Runs requests that arrive together. Returns the times of their first tokens.
  std::vector<double> run(std::span<const Prompt> prompts, std::int64_t output = 1) {
    std::vector<RequestId> ids;
    const Seconds arrival = engine_->now();
    found_ = 0;
    for (const Prompt& prompt : prompts) {
      TokenRequest request;
      request.tokens = prompt;
      request.ends = false;
      RequestSpec spec;
      spec.arrival = arrival;
      spec.prompt = Tokens{static_cast<std::int64_t>(prompt.size())};
      spec.output = Tokens{output};
      const Tokens found = machine_->find(request);
      found_ += found.count();
      ids.push_back(must(engine_->submit(spec, {}, found)));
      machine_->enter(ids.back(), std::move(request));
    }
    const std::size_t before = engine_->template observed<FirstTokens>().seconds.size();
    layers_.clear();
    const double own = cpu_s(CLOCK_THREAD_CPUTIME_ID), all_threads = cpu_s(CLOCK_PROCESS_CPUTIME_ID);
    while (engine_->alive() > 0 && engine_->step() == Stepped::ran)
      for (const LayerTimes& times : machine_->layer_times()) layers_.push_back(times.end_s - times.start_s);
    took_ = (engine_->now() - arrival).count();
    cpu_ = cpu_s(CLOCK_THREAD_CPUTIME_ID) - own;
    lanes_cpu_ = cpu_s(CLOCK_PROCESS_CPUTIME_ID) - all_threads - cpu_;
    for (const RequestId id : ids) machine_->forget(id);
    const auto& all = engine_->template observed<FirstTokens>().seconds;
    if (all.size() < before + prompts.size()) {
      fmt::print(stderr, "bench_host_tier: {} of {} requests were refused; expected room for the KV of all\n",
                 before + prompts.size() - all.size(), prompts.size());
      std::exit(1);
    }
    return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
  }
  double ttft(const Prompt& prompt) { return run({&prompt, 1}).front(); }
  /// Waits until all KV of ended requests is in the host tier.
  void settle() {
    while (machine_->keeps_moving()) std::this_thread::yield();
  }
  [[nodiscard]] std::int64_t found() const { return found_; }
  [[nodiscard]] double took() const { return took_; }
  /// Processor time of the last run: of this thread, which computes, and of the link's lanes.
  [[nodiscard]] double cpu() const { return cpu_; }
  [[nodiscard]] double lanes_cpu() const { return lanes_cpu_; }
  /// The median time of the layers of the last run.
  [[nodiscard]] double layer_s() const { return median(layers_); }
  [[nodiscard]] std::int64_t loaded_bytes() const { return machine_->host_tier().to_device.bytes; }

 private:
  std::shared_ptr<CpuMachine> machine_;
  std::optional<E> engine_;
  std::vector<double> layers_;
  double took_ = 0, cpu_ = 0, lanes_cpu_ = 0;
  std::int64_t found_ = 0;
};

using Runner = BasicRunner<WriteThrough>;

/// The evaluator's TTFT of a request that finds `found` tokens on the host.
double predict(const Bench& bench, const Measured& world, std::int64_t prompt, std::int64_t found) {
  using E = With<Engine<>, BasicSimulated<Measured>, Measured, FirstTokens>;
  const std::int64_t blocks = (prompt / bench.limits.block_tokens.count() + 2) * bench.layers;
  E engine = must(E::make({.limits = bench.limits,
                           .geometry = {bench.layers, bench.block(), bench.weights.layout.bytes, Bytes{0}},
                           .device_blocks = LayerBlocks{blocks},
                           .host_blocks = LayerBlocks{blocks},
                           .cost = world,
                           .backend = BasicSimulated<Measured>{world}}));
  RequestSpec spec;
  spec.prompt = Tokens{prompt};
  (void)must(engine.submit(spec, {}, Tokens{found}));
  while (engine.step() == Stepped::ran) {
  }
  return engine.template observed<FirstTokens>().seconds.front();
}

Prompt random_prompt(Random& random, std::int64_t tokens, int vocabulary) {
  Prompt prompt(static_cast<std::size_t>(tokens));
  for (std::int32_t& token : prompt)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
  return prompt;
}

} // namespace

int main(int argc, char** argv) {
  Bench bench;
  CLI::App app{"Measures what KV found in the host tier saves, and what keeping it costs"};
  app.add_option("--layers", bench.layers)->check(CLI::Range(2, 128));
  app.add_option("--hidden", bench.hidden)->check(CLI::Range(64, 8192));
  app.add_option("--context", bench.context, "tokens of a prompt")->check(CLI::Range(256, 1 << 16));
  app.add_option("--rounds", bench.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--waiters", bench.waiters, "requests with one beginning")->check(CLI::Range(2, 1000));
  std::string only;
  app.add_option("--only", only, "ttft, waiters or write-through")
      ->check(CLI::IsMember({"ttft", "waiters", "write-through"}));
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;
  const auto wanted = [&only](const char* part) { return only.empty() || only == part; };
  DecoderConfig config;
  config.shape.layers = bench.layers;
  config.shape.hidden = bench.hidden / 64 * 64;
  config.shape.heads = config.shape.hidden / 64;
  config.shape.kv_heads = config.shape.heads;
  config.shape.head_dim = 64;
  config.shape.mlp = 3 * config.shape.hidden;
  config.shape.vocabulary = 1024;
  config.max_positions = 1 << 17;
  bench.weights = random_weights(config, 1);
  bench.limits.max_context = Tokens{config.max_positions};
  bench.limits.batch = std::max(4, bench.waiters);
  bench.limits.batch_tokens = Tokens{512};
  Random random(1);
  const std::int64_t fresh = bench.context / 20; // tokens behind the found ones
  const auto prompt = [&](std::int64_t tokens) { return random_prompt(random, tokens, config.shape.vocabulary); };
  const auto longer = [&](Prompt beginning, std::int64_t tokens) {
    const Prompt more = prompt(tokens);
    beginning.insert(beginning.end(), more.begin(), more.end());
    return beginning;
  };

  Runner plain(bench, 0, 0, 2 * bench.context);
  std::vector<double> cold;
  for (int round = 0; round < bench.rounds; ++round) cold.push_back(plain.ttft(prompt(bench.context)));
  bench.token = Seconds{median(cold) / bench.context};
  const double b_star = static_cast<double>(bench.token_bytes()) / bench.token.count();
  fmt::print("{} layers of {}, prompts of {} tokens, {} bytes of KV per token, one compute thread; B* {:.0f} MB/s\n\n",
             bench.layers, config.shape.hidden, bench.context + fresh, bench.token_bytes(), b_star * 1e-6);

  if (wanted("ttft"))
    fmt::print("| link | found, % | TTFT loaded over computed | IfFaster over computed | it loads, % | loaded over "
               "simulated |\n|---|---:|---:|---:|---:|---:|\n");
  for (const double share : {8.0, 4.0, 2.0, 1.0, 0.5}) {
    if (!wanted("ttft")) break;
    Runner unlimited(bench, 0, 4 * bench.context, 2 * bench.context);
    std::vector<double> over_computed, chosen_over_computed, over_simulated, found, loads;
    for (int round = 0; round < bench.rounds; ++round) {
      const Prompt beginning = prompt(bench.context), whole = longer(beginning, fresh);
      bench.token = Seconds{plain.ttft(prompt(bench.context)) / bench.context};
      const double rate = share * static_cast<double>(bench.token_bytes()) / bench.token.count();
      Runner linked(bench, rate, 4 * bench.context, 2 * bench.context);
      BasicRunner<IfFaster<WriteThrough>> choosing(bench, rate, 4 * bench.context, 2 * bench.context);
      const auto begin_with = [&](auto&... runners) { (((void)runners.ttft(beginning), runners.settle()), ...); };
      begin_with(linked, unlimited, choosing);
      const double computed = plain.ttft(whole);
      const double fast = unlimited.ttft(whole);
      Measured world;
      world.time.layer = Seconds{unlimited.layer_s()};
      world.time.after = Seconds{std::max(0.0, fast - unlimited.layer_s() * bench.layers)};
      world.link_cost.rate = BytesPerSecond{rate};
      const double hit = linked.ttft(whole);
      const std::int64_t before = choosing.loaded_bytes();
      chosen_over_computed.push_back(choosing.ttft(whole) / computed);
      loads.push_back(static_cast<double>(choosing.loaded_bytes() - before) /
                      static_cast<double>(choosing.found() * bench.token_bytes()));
      found.push_back(static_cast<double>(linked.found()) / static_cast<double>(whole.size()));
      over_computed.push_back(hit / computed);
      over_simulated.push_back(hit / predict(bench, world, static_cast<std::int64_t>(whole.size()), linked.found()));
      unlimited.settle();
    }
    fmt::print("| {} B* | {:.0f} | {:.2f} | {:.2f} | {:.0f} | {:.2f} |\n", share, 100 * median(found),
               median(over_computed), median(chosen_over_computed), 100 * median(loads), median(over_simulated));
    std::fflush(stdout);
  }

  std::vector<double> slowest, all_bytes, one_bytes;
  if (wanted("waiters")) {
    Runner crowd(bench, 4 * b_star, 2 * bench.context, (bench.context + 32) * bench.waiters);
    for (int round = 0; round < bench.rounds; ++round) {
      const Prompt beginning = prompt(bench.context);
      (void)crowd.ttft(beginning);
      crowd.settle();
      std::vector<Prompt> prompts;
      for (int i = 0; i < bench.waiters; ++i) prompts.push_back(longer(beginning, 2));
      const Prompt single = longer(beginning, 2);
      const std::int64_t before = crowd.loaded_bytes();
      const double one = crowd.ttft(single);
      crowd.settle();
      const std::int64_t between = crowd.loaded_bytes();
      const std::vector<double> each = crowd.run(prompts);
      crowd.settle();
      slowest.push_back(*std::max_element(each.begin(), each.end()) / one);
      one_bytes.push_back(static_cast<double>(between - before));
      all_bytes.push_back(static_cast<double>(crowd.loaded_bytes() - between));
    }
    fmt::print(
        "\n{} requests with one beginning of {} tokens on the host, a link of 4 B*: the slowest first token takes "
        "{:.2f} times that of one request; {:.2f} times its bytes are loaded\n",
        bench.waiters, bench.context, median(slowest), median(all_bytes) / median(one_bytes));
  }

  if (wanted("write-through")) {
    Runner without(bench, 4 * b_star, 0, 2 * bench.context);
    Runner ended(bench, 4 * b_star, 64 * bench.context, 2 * bench.context);
    BasicRunner<WriteThrough> computed(bench, 4 * b_star, 64 * bench.context, 2 * bench.context);
    struct Times {
      double wall = 0, cpu = 0, lanes = 0;
    };
    const auto times_of = [&](auto& runner) {
      Times times;
      for (int batch = 0; batch < 6; ++batch) { // KV of a batch crosses the link while the next one runs
        std::vector<Prompt> prompts;
        for (int i = 0; i < 4; ++i) prompts.push_back(prompt(bench.context / 4));
        (void)runner.run(prompts, 16);
        times.wall += runner.took();
        times.cpu += runner.cpu();
        times.lanes += runner.lanes_cpu();
      }
      runner.settle();
      return times;
    };
    std::vector<double> wall[2], cpu[2], lanes[2]; // when requests end, and as KV is computed
    for (int round = 0; round < bench.rounds; ++round) {
      Times times[3];
      for (int turn = 0; turn < 3; ++turn) { // each comes first in every third round
        const int which = (turn + round) % 3;
        times[which] = which == 0 ? times_of(without) : which == 1 ? times_of(ended) : times_of(computed);
      }
      for (int kind = 0; kind < 2; ++kind) {
        wall[kind].push_back(times[kind + 1].wall / times[0].wall);
        cpu[kind].push_back(times[kind + 1].cpu / times[0].cpu);
        lanes[kind].push_back((times[kind + 1].lanes - times[0].lanes) / times[0].cpu);
      }
    }
    fmt::print(
        "\nRequests of {} tokens that reuse nothing, 16 tokens each, a link of 4 B*, over the same without a host "
        "tier:\n\n| the host gets KV | time | processor time of the computing thread | and of the link's threads, in "
        "addition |\n|---|---:|---:|---:|\n",
        bench.context / 4);
    for (int kind = 0; kind < 2; ++kind)
      fmt::print("| {} | {:.3f} | {:.3f} | {:.3f} |\n", kind == 0 ? "when requests end" : "as it is computed",
                 median(wall[kind]), median(cpu[kind]), median(lanes[kind]));
  }
  return 0;
}
