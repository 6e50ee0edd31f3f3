// SPDX-License-Identifier: Apache-2.0
// eLLM's comparison on the paper's setup (section 6): headline, ablations, wrong costs, units of F layers, and the
// savings that the paper's own equations allow. Prints the tables of docs/reproductions.md.
#include "sluice/engine/systems/ellm.hpp"
#include "sluice/engine/systems/hcache.hpp"
#include "sluice/policy/placement/ellm_equations.hpp"
#include "sluice/simulation.hpp"

#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/core.h>

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

  fmt::print("\nThe equations, for 32 requests that fill the memory, at the device's peak:\n\n");
  print_equations(server.model, server.device, server.kv_blocks);
  return 0;
}
