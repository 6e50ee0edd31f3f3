// SPDX-License-Identifier: Apache-2.0
// bench_distances: distances for many requests, beside the layers that Confluence offloads for all of them alike.
//
//   bench_distances [--batches LIST] [--seeds LIST] [--data FOLDER] [--threads N]
//
// Serves two workloads of bench/leading.json in which many requests run at once, mirage 10/s and superinfer 22/s, with
// batches of at most so many requests, and prints the rows of docs/leading.md (mirage runs at most 256 at once, so its
// batch of 1,024 repeats that row). All engines are Confluence, with another
// placement: distances for batches of any size, for the requests that WorthJoining lets in ("for all"), or without
// WorthJoining ("alone"). Each cell has TBT / SLO attainment in per cent and the P99 of a plan in microseconds of the
// simulated clock; `<` or `>`: worse or better than Confluence by the sign test, which six seeds or more can decide.
// Equal on every machine.
#include "sluice/engine/serve_seeds.hpp"
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"
#include "sluice/workload/resampled.hpp"

#include "distances_for_all.hpp"
#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

constexpr Slo slo{.ttft = Seconds{5}, .tbt = Seconds{0.1}};
constexpr std::string_view lengths = "prompt=lognormal(161,1.0),output=lognormal(338,1.0)";

template <class T>
T or_exit(Expected<T> value) {
  if (value) return *std::move(value);
  std::fprintf(stderr, "bench_distances: %s\n", value.error().line().c_str());
  std::exit(2);
}

/// Requests in memory.
struct Listed {
  std::vector<RequestSpec> requests;
  std::size_t at = 0;
  Expected<std::optional<RequestSpec>> next() {
    return at < requests.size() ? std::optional{requests[at++]} : std::optional<RequestSpec>{};
  }
};

/// Arrivals of the trace in blocks, lengths of the generator, as `sluice-compare --seeds` draws them.
Listed mirage(const std::string& data, std::uint64_t seed) {
  Trace trace = or_exit(open_trace(data + "/traces/azure_llm_2023_code.csv", TraceFormat::azure,
                                   {.limit = 1000, .rate_scale = 5.217, .slo = slo}));
  Generator drawn{or_exit(parse_generator(fmt::format("poisson:rate=1,requests=1000,{},longest=1024", lengths))), seed};
  std::vector<RequestSpec> requests = or_exit(read_all(trace));
  for (RequestSpec& request : requests) {
    const RequestSpec other = *or_exit(drawn.next());
    request.prompt = other.prompt;
    request.output = other.output;
  }
  Resampled again{std::move(requests), {}, seed};
  return {or_exit(read_all(again))};
}

Listed superinfer(const std::string& /*data*/, std::uint64_t seed) {
  Trace trace = or_exit(open_generator(fmt::format("poisson:rate=22,requests=3000,{}", lengths), seed, {.slo = slo}));
  return {or_exit(read_all(trace))};
}

struct Cell {
  const char* name;
  Listed (*workload)(const std::string&, std::uint64_t);
  ModelShape model;
  Device device;
  double memory_share;
};

constexpr const char* head = "| workload | Confluence | `GroupedDistance` for all | `DistancePlacement` for all | "
                             "`GroupedDistance` alone | `DistancePlacement` alone |\n|---|---:|---:|---:|---:|---:|\n";

/// A mean in per cent, marked if it differs from `than`'s.
std::string figure(const SeededMetrics& of, const SeededMetrics& than, double Metrics::*what) {
  const Paired of_seeds = by_signs(paired(of, than, what));
  const bool differs = of_seeds.judged() && !of_seeds.tie();
  const char* mark = !differs ? "" : of_seeds.difference.mean < 0 ? " <" : " >";
  return fmt::format("{:.1f}{}", 100 * of.interval(what).mean, mark);
}

void compare(const Cell& cell, int batch, const std::vector<std::uint64_t>& seeds, const std::string& data,
             unsigned threads) {
  const Limits limits{.batch = batch, .batch_tokens = Tokens{2048}};
  const Server server{cell.model, cell.device,
                      kv_blocks_beside_weights(cell.model, cell.device, limits.block_tokens, cell.memory_share),
                      limits};
  const auto served = or_exit(serve_seeds<Confluence, With<Confluence, bench::DistancesForAll<GroupedDistance>>,
                                          With<Confluence, bench::DistancesForAll<DistancePlacement>>,
                                          With<Confluence, GroupedDistance>, With<Confluence, DistancePlacement>>(
      server, seeds, [&](std::uint64_t seed) { return cell.workload(data, seed); }, {.threads = threads}));
  fmt::print("| {}, batch {} |", cell.name, batch);
  for (const SeededMetrics& one : served)
    fmt::print(" {} / {}; {:.0f} µs |", figure(one, served[0], &Metrics::tbt_attainment),
               figure(one, served[0], &Metrics::slo_attainment), one.interval(&Metrics::planning_p99_us).mean);
  fmt::print("\n");
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  std::string seeds = "41..44", data = "../shared/data";
  std::vector<int> batches{64, 256, 1024};
  unsigned threads = 0;
  CLI::App app{"Distances for many requests, beside the layers that Confluence offloads for all of them alike."};
  app.add_option("--batches", batches, "the most requests in a batch")->delimiter(',')->capture_default_str();
  app.add_option("--seeds", seeds, "one workload each")->capture_default_str();
  app.add_option("--data", data, "folder of the public traces")->capture_default_str();
  app.add_option("--threads", threads, "runs at once (default: one per processor)");
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;
  const std::vector<std::uint64_t> all = or_exit(parse_seeds(seeds));
  const std::array cells{Cell{"mirage 10/s", mirage, opt_13b(), gh200_96(), 0.35},
                         Cell{"superinfer 22/s", superinfer, qwen2_5_32b(), gh200_144(), 0.9}};
  fmt::print("{}", head);
  for (const Cell& cell : cells)
    for (const int batch : batches) compare(cell, batch, all, data, threads);
  return 0;
}
