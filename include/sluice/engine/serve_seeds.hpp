// SPDX-License-Identifier: Apache-2.0
// serve_seeds: serve(), for engine types side by side, over as many workloads as there are seeds.
#pragma once

#include "sluice/engine/serve.hpp"
#include "sluice/statistics/paired.hpp"
#include "sluice/workload/seeds.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// What one engine type's users got, workload by workload.
struct SeededMetrics {
  std::vector<std::uint64_t> seeds;
  std::vector<Metrics> each; ///< in the order of the seeds

  /// One figure of every workload: `&Metrics::tbt_attainment`, or a function of Metrics.
  template <class Figure>
  [[nodiscard]] std::vector<double> values(Figure figure) const {
    std::vector<double> all;
    for (const Metrics& metrics : each) all.push_back(static_cast<double>(std::invoke(figure, metrics)));
    return all;
  }
  /// Its mean, with the 95 % interval.
  template <class Figure>
  [[nodiscard]] Interval interval(Figure figure) const {
    return mean_interval(values(figure));
  }
};

/// One figure of two engine types over the same seeds, `a` less `b`: who has more, or a tie.
template <class Figure>
[[nodiscard]] Paired paired(const SeededMetrics& a, const SeededMetrics& b, Figure figure) {
  SLUICE_ASSERT(a.seeds == b.seeds, "runs of the same seeds");
  return paired(a.values(figure), b.values(figure));
}

struct SeedOptions {
  unsigned threads = 0; ///< runs at once; 0: one a processor
};

namespace detail {

/// Calls `act(i)` for every i below `count`, on some threads. The error of the least i that has one, whatever the
/// threads: who is behind an error is not begun, who is before it is finished.
template <class Act>
[[nodiscard]] Status run_each(std::size_t count, unsigned threads, Act&& act) {
  std::vector<std::optional<Error>> errors(count);
  std::atomic<std::size_t> next{0}, failed{count};
  const auto work = [&] {
    for (std::size_t i = next++; i < count && i < failed; i = next++) {
      if (Status status = act(i); !status) {
        errors[i] = status.error();
        for (std::size_t least = failed; i < least && !failed.compare_exchange_weak(least, i);) {
        }
      }
    }
  };
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min<std::size_t>(threads, count); ++i) others.emplace_back(work);
    work();
  }
  return failed < count ? Status{*errors[failed]} : Status{};
}

} // namespace detail

/// Serves the workload of every seed with every engine type of `Es`, and measures what each one's users got:
///
///     const auto served = serve_seeds<OrbitFlow, VllmSwap>(server, seed_range(1, 20), [](std::uint64_t seed) {
///       return Shaped<Generator>{Generator{demo_workload(), seed}, {.slo = slo}};
///     });
///     const auto& [orbitflow, vllm] = *served;
///     orbitflow.interval(&Metrics::tbt_attainment)             // 73.9 % +- 8.9
///     paired(orbitflow, vllm, &Metrics::tbt_attainment).tie()  // judged seed by seed
///
/// `make` gives the reader of a seed's workload: a `Generator` of that seed, a `Resampled` trace. It is called once for
/// every run, from several threads at once. Results are the same whatever the number of threads, and so is the error:
/// of the first seed in order whose run fails, named before what `serve` says.
template <class... Es, class Make>
  requires(sizeof...(Es) > 0 && TraceReader<std::invoke_result_t<Make&, std::uint64_t>>)
[[nodiscard]] Expected<std::array<SeededMetrics, sizeof...(Es)>>
serve_seeds(const Server& server, std::span<const std::uint64_t> seeds, Make&& make, SeedOptions options = {}) {
  std::array<SeededMetrics, sizeof...(Es)> served;
  for (SeededMetrics& one : served) {
    one.seeds.assign(seeds.begin(), seeds.end());
    one.each.resize(seeds.size());
  }
  using Run = Expected<Metrics> (*)(const Server&, Make&, std::uint64_t);
  const std::array<Run, sizeof...(Es)> runs{
      [](const Server& on, Make& of, std::uint64_t seed) -> Expected<Metrics> { return serve<Es>(on, of(seed)); }...};
  const Status status = detail::run_each(seeds.size() * runs.size(), options.threads, [&](std::size_t i) -> Status {
    const std::size_t seed = i / runs.size(), engine = i % runs.size();
    Expected<Metrics> metrics = runs[engine](server, make, seeds[seed]);
    if (!metrics) {
      Error error = metrics.error();
      error.where = "seed " + std::to_string(seeds[seed]) + ": " + error.where;
      return error;
    }
    served[engine].each[seed] = *std::move(metrics);
    return {};
  });
  if (!status) return status.error();
  return served;
}

} // namespace sluice
