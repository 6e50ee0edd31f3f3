// SPDX-License-Identifier: Apache-2.0
// bench_promises: how many SLOs a server keeps under twice its capacity, by gate, on a virtual clock.
//
// The virtual clock charges forecasts what their steps cost on a real one, and delivery takes no time: a bound for
// bench/serve/promises, which measures the same on the wall clock. Every figure is the same on every machine.
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"

#include "serve/honesty.hpp"
#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace {

using namespace sluice;
using namespace sluice::testing;

struct Wanted {
  std::size_t clients = 400;
  std::size_t replayed = 40;
  std::uint64_t seed = 3;
  double load = 2; ///< of the capacity
};

double metric(const Served& served, std::string_view name) {
  const std::string line = fmt::format("\nsluice:{} ", name);
  return std::stod(served.metrics.substr(served.metrics.find(line) + line.size()));
}

/// `none`: the same clients without a gate.
void print_row(std::string_view system, std::string_view truth, std::string_view gate, const Served& served,
               const Served& none) {
  fmt::print("{} | {} | {} | {} | {} | {:.1f} % | {:.2f} | {:.1f} | {:.2f} s | {:.2f} % |", served.kept(), system, truth, gate,
             served.admitted(), 100 * served.share_kept(), served.goodput(), served.goodput() / none.goodput(),
             served.mean_ttft(), 100 * metric(served, "forecast_seconds_total") / served.end.count());
}

template <class System>
void run(std::string_view name, const Wanted& wanted) {
  const Slo slo{Seconds{2}, Seconds{0.1}};
  const Server server = small_server();
  const double most = capacity<VllmSwap>(server, slo); // the same load for all
  struct {
    std::string_view what;
    double slowdown, jitter;
  } const truths[] = {{"as predicted", 1, 0},
                      {"10 % slower", 1.1, 0},
                      {"10 % slower, each step ± 10 %", 1.1, 0.1},
                      {"each step ± 30 %", 1, 0.3}};
  for (const auto& truth : truths) {
    Case of{server, truth.slowdown, truth.jitter, 1, clients(wanted.clients, wanted.load * most, slo, wanted.seed)};
    of.charge_s = forecast_step_s;
    LettingIn gate;
    gate.open = true;
    const Served none = serve_clients<System>(of, gate);
    print_row(name, truth.what, "none", none, none);
    fmt::print(" |\n");
    for (const std::int64_t places : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) { LettingIn q; q.open = true; q.queue.most = places;
    print_row(name, truth.what, fmt::format("queue {}", places), serve_clients<System>(of, q), none);
    fmt::print(" |\n"); }
    gate.open = false;
    gate.gate.mode = ForecastMode::soft;
    print_row(name, truth.what, "soft", serve_clients<System>(of, gate), none);
    fmt::print(" |\n");
    gate.gate.mode = ForecastMode::hard;
    const Served served = serve_clients<System>(of, gate);
    print_row(name, truth.what, "hard", served, none);
    const auto refused = static_cast<std::size_t>(static_cast<std::int64_t>(of.sent.size()) - served.admitted());
    const std::size_t each = wanted.replayed == 0 ? refused + 1 : std::max<std::size_t>(1, refused / wanted.replayed);
    const Replayed replayed = replay_refusals<System>(of, gate, served, each);
    fmt::print(" {} of {} |\n", replayed.wrong, replayed.refusals);
  }
}

} // namespace

int main(int argc, char** argv) {
  Wanted wanted;
  CLI::App app{"Measures how many SLOs a server keeps under twice its capacity, by gate."};
  app.add_option("--clients", wanted.clients, "that come, each once")->capture_default_str();
  app.add_option("--replayed", wanted.replayed, "approximate number of refusals to replay per run")
      ->capture_default_str();
  app.add_option("--seed", wanted.seed, "of the workload")->capture_default_str();
  app.add_option("--load", wanted.load, "times the capacity")->capture_default_str();
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;
  fmt::print("| system | the truth | gate | admitted of {} | SLO kept | kept per second | times none's | mean TTFT | "
             "forecasts took | refusals provably wrong |\n|---|---|---|---|---|---|---|---|---|---|\n",
             wanted.clients);
  run<VllmSwap>("VllmSwap", wanted);
  run<OrbitFlow>("OrbitFlow", wanted);
  run<SuperInfer>("SuperInfer", wanted);
  run<Confluence>("Confluence", wanted);
  return 0;
}
