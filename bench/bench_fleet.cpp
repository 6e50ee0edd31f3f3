// SPDX-License-Identifier: Apache-2.0
// bench_fleet: cost of simulating a fleet, from 10 engines to 1,000, beside a loop over the same engines without a
// fleet.
//
//   bench_fleet [RATE [SECONDS [REPEATS [THREADS]]]]   (requests/s of an engine, 1.5; simulated, 20 s with 1,000
//                                                       engines; 3; 1)
//
// Llama-3-8B on an H100 each, prompts of 1,155 and answers of 211 tokens on average (Azure's conversations). Every row
// has the same number of requests: 10 engines run 100 times as long as 1,000. Prints medians of CPU seconds, so that
// other load does not count, and how much faster than real time two cores would be at that cost. Reading the workload
// is included, and making the engines is not. A second table says what windows cost in accuracy: eight engines behind
// LeastLoaded at six times that rate, from windows of a microsecond, which route as events in order of time do, to 2 s.
// Prompts of systems with prefix caching begin with one of 100 beginnings of 512 tokens for each 10 engines; in the
// last rows all begin alike.
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/fleet/fleet.hpp"
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/fleet/round_robin.hpp"
#include "sluice/fleet/scorers.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/workload/generator.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

using Precise = WeightedScorers<QueueScorer, KvScorer, FoundScorer>;
using Estimated = WeightedScorers<QueueScorer, KvScorer, SentScorer>;

struct Settings {
  double rate = 1.5, seconds = 20;
  int repeats = 3, threads = 1;
};

rusage usage() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used;
}
double cpu_s() {
  const rusage used = usage();
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}
int fail(const Error& error) {
  fmt::print(stderr, "bench_fleet: {}\n", error.line());
  return 2;
}

/// Generated requests, whose prompts begin alike in groups.
class Grouped {
 public:
  Grouped(Generator lengths, std::uint64_t groups) : lengths_(std::move(lengths)), groups_(groups) {}
  Expected<std::optional<RequestSpec>> next() {
    Expected<std::optional<RequestSpec>> request = lengths_.next();
    if (!request || !*request) return request;
    const Tokens alike = std::min(Tokens{512}, (*request)->prompt);
    pieces_ = {{1 + random_.below(groups_), alike}, {(std::uint64_t{1} << 40) + made_++, (*request)->prompt - alike}};
    return request;
  }
  [[nodiscard]] std::span<const ContentPiece> content() const { return pieces_; }

 private:
  Generator lengths_;
  std::uint64_t groups_, made_ = 0;
  Random random_{1};
  std::vector<ContentPiece> pieces_;
};

struct Job {
  std::size_t engines = 0;
  double seconds = 0;
  GeneratorSpec requests;
  Server server;
};
Expected<Job> job(std::size_t engines, const Settings& settings) {
  const double seconds = settings.seconds * 1000 / static_cast<double>(engines);
  const double rate = settings.rate * static_cast<double>(engines);
  Expected<GeneratorSpec> spec = parse_generator(fmt::format(
      "poisson:rate={},requests={:.0f},prompt=lognormal(1155,1.0),output=lognormal(211,1.0)", rate, rate * seconds));
  if (!spec) return spec.error();
  Job made{
      engines, seconds, *spec, {.model = llama3_8b(), .device = h100(), .kv_blocks = TokenBlocks{0}, .limits = {}}};
  made.server.kv_blocks =
      kv_blocks_beside_weights(made.server.model, made.server.device, made.server.limits.block_tokens);
  return made;
}

struct Ran {
  double cpu_s = 0;
  std::int64_t iterations = 0;
  double mean_age_s = 0;
};

/// Round robin without a fleet: each engine in turn runs to the window's end, so that its state stays in the caches.
template <class E>
Expected<Ran> loop(const Job& of) {
  std::vector<E> engines;
  for (std::size_t i = 0; i < of.engines; ++i) {
    Expected<E> engine = E::make(configure<E>(of.server));
    if (!engine) return engine.error();
    engines.push_back(*std::move(engine));
  }
  const double begin = cpu_s();
  std::vector<std::vector<RequestSpec>> queues(of.engines);
  Generator reader(of.requests, 1);
  Expected<std::optional<RequestSpec>> next = reader.next();
  std::size_t turn = 0;
  for (int window = 1; next; ++window) {
    const Seconds until = *next ? Seconds{0.1 * window} : never_due;
    for (; next && *next && (*next)->arrival < until; next = reader.next())
      queues[turn++ % of.engines].push_back(**next);
    for (std::size_t i = 0; i < of.engines; ++i) {
      std::size_t at = 0;
      while (engines[i].now() < until) {
        while (at < queues[i].size() && queues[i][at].arrival <= engines[i].now())
          (void)engines[i].submit(queues[i][at++]);
        if (engines[i].step() != Stepped::idle) continue;
        if (at == queues[i].size()) break;
        engines[i].idle_until(queues[i][at].arrival);
      }
      queues[i].erase(queues[i].begin(), queues[i].begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (until == never_due) break;
  }
  Ran ran{cpu_s() - begin};
  for (const E& engine : engines) ran.iterations += engine.steps();
  return ran;
}
template <class R, class E, class Reader>
Expected<Ran> fleet(const Job& of, R router, Reader reader, int threads) {
  FleetSettings settings;
  settings.threads = threads;
  auto made = make_fleet<R, E>(of.engines, of.server, std::move(router), settings);
  if (!made) return made.error();
  const double begin = cpu_s();
  if (Status status = made->run(reader); !status) return status.error();
  Ran ran{cpu_s() - begin};
  for (const EnginePart& part : made->summary().engines) ran.iterations += part.steps;
  if (made->summary().age.count() > 0) ran.mean_age_s = made->summary().age.mean();
  return ran;
}

/// A row for each size of fleet.
template <class Act>
Status rows(const char* system, const char* router, const Settings& settings, Act&& act) {
  double smallest = 0;
  for (const std::size_t engines : {std::size_t{10}, std::size_t{100}, std::size_t{1000}}) {
    const Expected<Job> of = job(engines, settings);
    if (!of) return of.error();
    std::vector<double> each;
    Ran ran;
    for (int i = 0; i < settings.repeats; ++i) {
      const Expected<Ran> one = act(*of);
      if (!one) return one.error();
      ran = *one;
      each.push_back(one->cpu_s);
    }
    std::sort(each.begin(), each.end());
    const double cpu = each[each.size() / 2];
    if (engines == 10) smallest = cpu;
    fmt::print("{:<18} {:<12} {:>6} {:>7.2f} {:>8.1f} {:>8.2f} {:>8.0f} {:>8.0f} {:>7.3f} {:>9.0f}\n", system, router,
               engines, cpu, 1e6 * cpu / static_cast<double>(of->requests.requests), cpu / smallest,
               1e9 * cpu / static_cast<double>(ran.iterations), 2 * of->seconds / cpu, ran.mean_age_s,
               static_cast<double>(usage().ru_maxrss) / 1024);
    std::fflush(stdout);
  }
  return {};
}

/// What longer windows change.
Status windows(const Settings& settings) {
  fmt::print("\n{:>9} {:>12} {:>11} {:>9} {:>9} {:>9} {:>9}\n", "window, s", "elsewhere, %", "mean TTFT", "P90", "P99",
             "age, s", "oldest");
  Expected<Job> of = job(8, {6 * settings.rate, settings.seconds * 8 * 0.03, 1, 1});
  if (!of) return of.error();
  std::vector<std::uint32_t> exact;
  for (const double window : {1e-6, 0.01, 0.05, 0.1, 0.5, 2.0}) {
    auto made = make_fleet<LeastLoaded, VllmRecompute>(of->engines, of->server, LeastLoaded{Seconds{window}});
    if (!made) return made.error();
    std::vector<std::uint32_t> chosen;
    Generator reader(of->requests, 1);
    const Status status = made->run(reader, [&]<class Event>(const Event& event) {
      if constexpr (std::same_as<Event, FleetChoice>) chosen.push_back(event.engine);
    });
    if (!status) return status.error();
    if (exact.empty()) exact = chosen;
    double apart = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) apart += chosen[i] != exact[i] ? 1 : 0;
    const FleetSummary& got = made->summary();
    fmt::print("{:>9g} {:>12.1f} {:>11.4f} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f}\n", window,
               100 * apart / static_cast<double>(exact.size()), got.ttft.mean(), got.ttft.quantile(0.9),
               got.ttft.quantile(0.99), got.age.mean(), got.age.max());
  }
  return {};
}

} // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (argc > 1) settings.rate = std::strtod(argv[1], nullptr);
  if (argc > 2) settings.seconds = std::strtod(argv[2], nullptr);
  if (argc > 3) settings.repeats = std::atoi(argv[3]);
  if (argc > 4) settings.threads = std::atoi(argv[4]);
  if (!(settings.rate > 0 && settings.seconds > 0 && settings.repeats > 0 && settings.threads > 0))
    return fail({ErrorCode::bad_input, "arguments", "one is not above 0", "RATE SECONDS REPEATS THREADS"});
  fmt::print("{:<18} {:<12} {:>6} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7} {:>9}\n", "system", "router", "engines", "CPU s",
             "us/req.", "of 10's", "ns/iter.", "x real", "age s", "MiB so far");
  const auto plain = [&](const Job& of) { return Generator(of.requests, 1); };
  const auto grouped = [&](const Job& of) { return Grouped(Generator(of.requests, 1), 10 * of.engines); };
  const auto alike = [&](const Job& of) { return Grouped(Generator(of.requests, 1), 1); };
  const int threads = settings.threads;
  Status status =
      rows("VllmRecompute", "none: a loop", settings, [&](const Job& of) { return loop<VllmRecompute>(of); });
  const auto add = [&]<class R, class E>(const char* system, const char* router, R one, auto reader) {
    if (status.ok())
      status = rows(system, router, settings, [&](const Job& of) { return fleet<R, E>(of, one, reader(of), threads); });
  };
  add.operator()<RoundRobin, VllmRecompute>("VllmRecompute", "RoundRobin", {}, plain);
  add.operator()<LeastLoaded, VllmRecompute>("VllmRecompute", "LeastLoaded", {}, plain);
  add.operator()<RoundRobin, VllmPrefixCaching>("VllmPrefixCaching", "RoundRobin", {}, grouped);
  add.operator()<LeastLoaded, VllmPrefixCaching>("VllmPrefixCaching", "LeastLoaded", {}, grouped);
  add.operator()<Estimated, VllmPrefixCaching>("VllmPrefixCaching", "estimated", {}, grouped);
  add.operator()<Precise, VllmPrefixCaching>("VllmPrefixCaching", "precise", {}, grouped);
  add.operator()<Precise, VllmPrefixCaching>("VllmPrefixCaching", "precise, all", {}, alike);
  if (status.ok()) status = windows(settings);
  return status.ok() ? 0 : fail(status.error());
}
