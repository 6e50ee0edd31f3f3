// SPDX-License-Identifier: Apache-2.0
// bench_promises: a server's forecasts under twice its capacity, and how many it keeps, with and without gates.
//
// It runs on a virtual clock, so every figure except the forecasts' time is the same on every machine.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/vllm.hpp"

#include "serve/honesty.hpp"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
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

void print_row(std::string_view system, std::string_view truth, std::string_view gate, const Served& served) {
  fmt::print("| {} | {} | {} | {} | {:.1f} % | {:.2f} |", system, truth, gate, served.admitted(),
             100 * served.share_kept(), served.goodput());
}

template <class System>
void run(std::string_view name, const Wanted& wanted) {
  const Slo slo{Seconds{2}, Seconds{0.1}};
  const Server server = small_server();
  const double most = capacity<System>(server, slo);
  struct {
    std::string_view what;
    double slowdown, jitter;
  } const truths[] = {{"as the model says", 1, 0},
                      {"10 % slower", 1.1, 0},
                      {"10 % slower, each step ± 10 %", 1.1, 0.1},
                      {"each step ± 30 %", 1, 0.3}};
  for (const auto& truth : truths) {
    const Case of{server, truth.slowdown, truth.jitter, 1,
                  clients(wanted.clients, wanted.load * most, slo, wanted.seed)};
    LettingIn gate;
    gate.open = true;
    print_row(name, truth.what, "none", serve_clients<System>(of, gate));
    fmt::print(" | | |\n");
    gate.open = false;
    gate.gate.mode = ForecastMode::hard;
    gate.gate.most_s = std::numeric_limits<double>::infinity();
    gate.gate.clock = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
    const Served served = serve_clients<System>(of, gate);
    print_row(name, truth.what, "hard", served);
    const auto refused = static_cast<std::size_t>(static_cast<std::int64_t>(of.sent.size()) - served.admitted());
    const std::size_t each = wanted.replayed == 0 ? refused + 1 : std::max<std::size_t>(1, refused / wanted.replayed);
    const Replayed replayed = replay_refusals<System>(of, gate, served, each);
    fmt::print(" {} of {} | {:.0f} ms | {:.2f} ms |\n", replayed.wrong, replayed.refusals,
               1e3 * metric(served, "forecast_ttft_error_seconds_total") /
                   metric(served, "forecast_first_tokens_total"),
               1e3 * metric(served, "forecast_seconds_total") / metric(served, "forecasts_total"));
  }
}

} // namespace

int main(int argc, char** argv) {
  Wanted wanted;
  CLI::App app{"Measures a server's forecasts under twice its capacity, and how many it keeps."};
  app.add_option("--clients", wanted.clients, "that come, each once")->capture_default_str();
  app.add_option("--replayed", wanted.replayed, "approximate number of refusals to replay per run")
      ->capture_default_str();
  app.add_option("--seed", wanted.seed, "of the workload")->capture_default_str();
  app.add_option("--load", wanted.load, "times the capacity")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  fmt::print("| system | the truth | gate | admitted of {} | of them kept | kept a second | refusals provably wrong | "
             "TTFT error | a forecast takes |\n|---|---|---|---|---|---|---|---|---|\n",
             wanted.clients);
  run<VllmSwap>("VllmSwap", wanted);
  run<OrbitFlow>("OrbitFlow", wanted);
  return 0;
}
