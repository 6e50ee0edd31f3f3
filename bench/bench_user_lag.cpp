// SPDX-License-Identifier: Apache-2.0
// bench_user_lag: SuperInfer with a deposit, by the engine's clock and by the user's.
//
//   bench_user_lag [--rates LIST] [--seeds LIST] [--blocks N] [--threads N]
//
// Serves the workload of `sluice-compare --preset superinfer-96` (Qwen2.5-32B on a GH200 with 6,500 token blocks of KV,
// 3,000 requests) at each rate, and prints the rows of docs/systems.md: means over the seeds, and behind SLO and TBT
// attainment the difference from the row above by the rules of docs/metrics.md. Equal on every machine.
#include "sluice/engine/serve_seeds.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/workload/reader.hpp"

#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

template <class T>
T or_exit(Expected<T> value) {
  if (value) return *std::move(value);
  std::fprintf(stderr, "bench_user_lag: %s\n", value.error().line().c_str());
  std::exit(2);
}

/// The difference of `of` from `than` in points: with its interval, or in how many of the seeds that differ it is more.
/// Bold: beyond a tie.
std::string difference(const SeededMetrics& of, const SeededMetrics& than, double Metrics::*what, bool has_interval) {
  Paired pairs = paired(of, than, what);
  const std::size_t differ = pairs.wins + pairs.losses;
  const bool by_interval = has_interval && pairs.pairs() >= 8 && 2 * differ > pairs.pairs();
  if (!by_interval) pairs = by_signs(pairs);
  const char* mark = pairs.judged() && !pairs.tie() ? "**" : "";
  const std::string mean = fmt::format("{}{:+.1f}{}", mark, 100 * pairs.difference.mean, mark);
  if (by_interval)
    return fmt::format("{} ({:+.1f} to {:+.1f})", mean, 100 * pairs.difference.least, 100 * pairs.difference.most);
  return fmt::format("{}, more in {} of {}", mean, pairs.wins, differ);
}

void compare(double rate, const std::vector<std::uint64_t>& seeds, std::int64_t blocks, unsigned threads) {
  const Server server{qwen2_5_32b(), gh200_144(), TokenBlocks{blocks}, {.batch = 1024, .batch_tokens = Tokens{2048}}};
  const GeneratorSpec workload = or_exit(parse_generator(
      fmt::format("poisson:rate={},requests=3000,prompt=lognormal(161,1.0),output=lognormal(338,1.0)", rate)));
  const auto make = [&workload](std::uint64_t seed) {
    return Shaped<Generator>{Generator{workload, seed}, {.slo = {.ttft = Seconds{5}, .tbt = Seconds{0.1}}}};
  };
  const auto served = or_exit(serve_seeds<SuperInfer, With<SuperInfer, TokenDeposit>, SuperInferUserLag>(
      server, seeds, make, {.threads = threads}));
  constexpr std::array names{"`SuperInfer`", "with a deposit", "... by the user's clock"};
  for (std::size_t i = 0; i < served.size(); ++i) {
    const auto mean = [&](auto figure) { return served[i].interval(figure).mean; };
    const auto against = [&](double Metrics::*what, bool has_interval) {
      return i == 0 ? std::string{} : difference(served[i], served[i - 1], what, has_interval);
    };
    fmt::print("| {} | {} | {:.1f} | {} | {:.1f} | {} | {:.1f} | {:.2f} | {:.2f} | {:.0f} | {:.1f} | {:.0f} |\n",
               i == 0 ? fmt::format("{:g}/s", rate) : "", names[i], 100 * mean(&Metrics::slo_attainment),
               against(&Metrics::slo_attainment, true), 100 * mean(&Metrics::tbt_attainment),
               against(&Metrics::tbt_attainment, false), 100 * mean(&Metrics::ttft_attainment),
               mean(&Metrics::p99_ttft_s), mean(&Metrics::longest_gap_s), mean(&Metrics::throughput_tokens_per_s),
               100 * mean(&Metrics::stall_share), mean(&Metrics::times_preempted));
  }
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  std::string seeds = "1..8";
  std::vector<double> rates{10, 15, 18, 20};
  std::int64_t blocks = 6500;
  unsigned threads = 0;
  CLI::App app{"SuperInfer with a deposit, by the engine's clock and by the user's."};
  app.add_option("--rates", rates, "requests per second")->delimiter(',')->capture_default_str();
  app.add_option("--seeds", seeds, "one workload each")->capture_default_str();
  app.add_option("--blocks", blocks, "token blocks of KV")->capture_default_str();
  app.add_option("--threads", threads, "runs at once (default: one per processor)");
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;
  const std::vector<std::uint64_t> all = or_exit(parse_seeds(seeds));
  fmt::print("| rate | engine | SLO, % | from the row above | TBT, % | from the row above | TTFT, % | P99 TTFT, s | "
             "longest gap, s | tokens/s | stall, % | rotations |\n"
             "|---|---|---:|---|---:|---|---:|---:|---:|---:|---:|---:|\n");
  for (const double rate : rates) compare(rate, all, blocks, threads);
  return 0;
}
