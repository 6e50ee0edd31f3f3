// SPDX-License-Identifier: Apache-2.0
// session_hints: what it is worth that clients say when they come back and what they will not use again.
//
// The problem: while an agent's tool runs, nobody but its client knows how long that takes, and whether the session has
// ended. Goals of this program: state hints (SessionHints), and compare what published ideas do with them: the same
// agents, once silent and once honest, on eight seeds. The last column is the share of the time that the hints save.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/statistics/paired.hpp"
#include "sluice/workload/session_generator.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace sluice;

constexpr std::uint64_t seeds = 8;
const std::string agents = "agents:sessions=32,rate=0.3,turns=lognormal(8,0.8),first=lognormal(8000,0.8),system=3000,"
                           "output=lognormal(150,1),longest=24576,tool=lognormal(12,1.5),user=lognormal(90,1)";

struct Means {
  std::vector<double> job_s, later_ttft_s, found;
};

/// Serves the agents of every seed, with what their clients say.
template <class E>
bool add(const Server& server, const std::string& hints, Means& to) {
  using Observed = With<E, Summary>;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    typename Observed::Config config = configure<Observed>(server);
    config.lower_tiers = {{.capacity = TokenBlocks{500'000}, // an SSD
                           .read_rate = BytesPerSecond{3e9},
                           .write_rate = BytesPerSecond{3e9},
                           .latency = Seconds{100e-6}}};
    Expected<Observed> engine = Observed::make(std::move(config));
    SessionGenerator sessions{*parse_sessions(agents + ",hints=" + hints), seed};
    const Status status = engine ? simulate(*engine, sessions) : engine.error();
    if (!status) return fmt::print(stderr, "session_hints: {}\n", status.error().line()), false;
    const Metrics metrics = measure(engine->template observed<Summary>(), engine->now());
    to.job_s.push_back(metrics.mean_job_s);
    to.later_ttft_s.push_back(metrics.mean_ttft_later_turns_s);
    to.found.push_back(metrics.found_share);
  }
  return true;
}

double mean(const std::vector<double>& of) { return mean_interval(of).mean; }

template <class E>
bool row(const char* system, const Server& server) {
  Means silent, honest;
  if (!add<E>(server, "none", silent) || !add<E>(server, "all", honest)) return false;
  std::string saved = "nothing";
  if (const Paired difference = by_signs(paired(silent.job_s, honest.job_s)); difference.difference.mean != 0)
    saved = fmt::format("{:.1f} %{}", 100 * difference.difference.mean / mean(silent.job_s),
                        difference.tie() ? " (tie)" : "");
  fmt::print("| {} | {} | {:.1f} | {:.1f} | {} | {:.2f} | {:.2f} | {:.1f} % | {:.1f} % |\n", system,
             name(heeded_hints<E>), mean(silent.job_s), mean(honest.job_s), saved, mean(silent.later_ttft_s),
             mean(honest.later_ttft_s), 100 * mean(silent.found), 100 * mean(honest.found));
  return true;
}

} // namespace

int main() {
  Server server{.model = llama3_8b(), .device = a100_80(), .kv_blocks = TokenBlocks{5'000}};
  server.device.host_memory = Bytes{12'000'000'000};
  server.limits.max_context = Tokens{24'576};
  fmt::print("{} on {}, 32 agents, 12 GB of host memory and an SSD; means of {} seeds, in seconds\n\n",
             server.model.name, server.device.name, seeds);
  fmt::print(
      "| system | reads | job, silent | job, honest | saved | later turns' TTFT, silent | honest | found, silent "
      "| honest |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n");
  const bool served = row<VllmPrefixCaching>("VllmPrefixCaching", server) &&
                      row<With<VllmPrefixCaching, KeepByHints>>("the same with KeepByHints", server) &&
                      row<Continuum>("Continuum", server) && row<InferCept>("InferCept", server) &&
                      row<CachedAttention>("CachedAttention", server) && row<KvFlow>("KvFlow", server) &&
                      row<HiCache>("HiCache", server) && row<HiCacheHints>("HiCacheHints", server);
  if (std::fflush(stdout) != 0) return std::perror("session_hints: standard output"), 2;
  return served ? 0 : 2;
}
