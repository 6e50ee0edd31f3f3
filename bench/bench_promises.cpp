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
  int retries = 2; ///< of clients that return when they are told; OpenAI's own clients try so often
  bool only_returns = false;
};

const Slo slo{Seconds{2}, Seconds{0.1}};

double metric(const Served& served, std::string_view name) {
  const std::string line = fmt::format("\nsluice:{} ", name);
  return std::stod(served.metrics.substr(served.metrics.find(line) + line.size()));
}

/// `none`: the same clients without a gate.
void print_row(std::string_view system, std::string_view truth, std::string_view gate, const Served& served,
               const Served& none) {
  fmt::print("| {} | {} | {} | {} | {} | {:.1f} % | {:.2f} | {:.1f} | {:.2f} s | {:.2f} % |", system, truth, gate,
             served.admitted(), served.kept(), 100 * served.share_kept(), served.goodput(),
             served.goodput() / none.goodput(), served.mean_ttft(),
             100 * metric(served, "forecast_seconds_total") / served.end.count());
}

template <class System>
void run(std::string_view name, const Wanted& wanted) {
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
    // The best bound of the queue can only be known afterwards.
    std::optional<Served> best;
    std::int64_t best_bound = 0;
    for (const std::int64_t bound : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
      gate.queue.most = bound;
      Served served = serve_clients<System>(of, gate);
      if (best && best->kept() >= served.kept()) continue;
      best = std::move(served);
      best_bound = bound;
    }
    print_row(name, truth.what, fmt::format("--queue {}, the best", best_bound), *best, none);
    fmt::print(" |\n");
    gate = {};
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

/// Clients that return exactly when they are told, by system and rate.
template <class System>
void run_returns(std::string_view name, const Wanted& wanted) {
  for (const double rate : {11.0, 40.0})
    for (std::uint64_t seed = wanted.seed; seed < wanted.seed + 3; ++seed) {
      Case of{small_server(), 1, 0, 1, clients(wanted.clients, rate, slo, seed)};
      of.charge_s = forecast_step_s;
      of.retries = wanted.retries;
      LettingIn gate;
      gate.gate.mode = ForecastMode::hard;
      const Served served = serve_clients<System>(of, gate);
      const Returns returns = returns_of(of, served);
      fmt::print("| {} | {} | {} | {} | {} | {} | {:.0f} % | {:.0f} % | {:.0f} % |\n", name, rate, seed,
                 served.admitted(), served.kept(), returns.told, 100 * returns.share_admitted(),
                 100 * returns.short_prompts.share(), 100 * returns.long_prompts.share());
    }
}

} // namespace

int main(int argc, char** argv) {
  Wanted wanted;
  CLI::App app{"Measures how many SLOs a server keeps under twice its capacity, by gate."};
  app.add_option("--clients", wanted.clients, "that come, each once in the first table")->capture_default_str();
  app.add_option("--replayed", wanted.replayed, "approximate number of refusals to replay per run")
      ->capture_default_str();
  app.add_option("--seed", wanted.seed, "of the workload; the first of three in the second table")
      ->capture_default_str();
  app.add_option("--load", wanted.load, "times the capacity")->capture_default_str();
  app.add_option("--retries", wanted.retries, "of refused clients, in the second table")->capture_default_str();
  app.add_flag("--only-returns", wanted.only_returns, "print the second table alone");
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;
  if (!wanted.only_returns) {
    fmt::print("| system | the truth | gate | admitted of {} | kept | SLO kept | kept per second | times none's | mean "
               "TTFT | forecasts took | refusals provably wrong |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
               wanted.clients);
    run<VllmSwap>("VllmSwap", wanted);
    run<OrbitFlow>("OrbitFlow", wanted);
    run<SuperInfer>("SuperInfer", wanted);
    run<Confluence>("Confluence", wanted);
    fmt::print("\n");
  }
  fmt::print("| system | clients per second | seed | admitted of {} | kept | returns when told | of them admitted | "
             "prompts below {} tokens served | longer ones served |\n|---|---|---|---|---|---|---|---|---|\n",
             wanted.clients, Returns::long_from);
  run_returns<VllmSwap>("VllmSwap", wanted);
  run_returns<OrbitFlow>("OrbitFlow", wanted);
  run_returns<SuperInfer>("SuperInfer", wanted);
  run_returns<Confluence>("Confluence", wanted);
  return 0;
}
