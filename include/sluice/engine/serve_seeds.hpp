// SPDX-License-Identifier: Apache-2.0
// serve_seeds: serves one workload per seed with several engine types, and compares them.
#pragma once

#include "sluice/core/job_queue.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/report/statistics/paired.hpp"
#include "sluice/workload/seeds.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// The metrics of one engine type for each workload.
struct SeededMetrics {
  std::vector<std::uint64_t> seeds;
  std::vector<Metrics> each; ///< in the order of the seeds

  /// One figure for every workload: `&Metrics::tbt_attainment`, or a function of Metrics.
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

/// One figure of two engine types over the same seeds, `a` minus `b`: which one has more, or a tie.
template <class Figure>
[[nodiscard]] Paired paired(const SeededMetrics& a, const SeededMetrics& b, Figure figure) {
  SLUICE_ASSERT(a.seeds == b.seeds, "runs of the same seeds");
  return paired(a.values(figure), b.values(figure));
}

struct SeedOptions {
  unsigned threads = 0; ///< concurrent runs; 0: one per processor
};

/// Serves the workload of every seed with every engine type of `Es`, and measures what each one's users got:
///
///     const auto served = serve_seeds<OrbitFlow, VllmSwap>(server, seed_range(1, 20), [](std::uint64_t seed) {
///       return Shaped<Generator>{Generator{demo_workload(), seed}, {.slo = slo}};
///     });
///     const auto& [orbitflow, vllm] = *served;
///     orbitflow.interval(&Metrics::tbt_attainment)             // 73.9 % +- 8.9
///     paired(orbitflow, vllm, &Metrics::tbt_attainment).tie()  // judged seed by seed
///
/// `make` returns the reader of a seed's workload: a `Generator` with that seed, or a `Resampled` trace. It is called
/// once for every run, from several threads at once. Results do not depend on the number of threads, nor does the
/// error: it is that of the first seed whose run fails, and names the seed before `serve`'s text.
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
  const Status status = run_each(seeds.size() * runs.size(), options.threads, [&](std::size_t i) -> Status {
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
