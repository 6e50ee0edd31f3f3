// SPDX-License-Identifier: Apache-2.0
// serve_seeds: equals serve() for every seed, for any number of threads, and returns the first error in order.
#include "sluice/engine/serve_seeds.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/workload/generator.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

using namespace sluice;

namespace {

GeneratorSpec spec() {
  return *parse_generator("poisson:rate=20,requests=12,prompt=uniform(64,512),output=uniform(4,24)");
}
Server small_server() { return {llama3_8b(), a5000(), TokenBlocks{64}, {.batch = 4, .max_context = Tokens{1024}}}; }
Shaped<Generator> workload(std::uint64_t seed) {
  return {Generator{spec(), seed}, {.slo = {.ttft = Seconds{1}, .tbt = Seconds{0.05}}}};
}

/// Everything except wall times.
std::vector<double> figures(const Metrics& metrics) {
  std::vector<double> all;
  for_each_metric(metrics, [&](std::string_view name, auto number) {
    if (name.find("_wall_") == std::string_view::npos && !std::isnan(static_cast<double>(number)))
      all.push_back(static_cast<double>(number));
  });
  return all;
}

/// A workload that cannot be read for some seeds.
struct Broken {
  std::uint64_t seed;
  Generator good;
  Expected<std::optional<RequestSpec>> next() {
    if (seed % 3 == 0) return Error{ErrorCode::bad_input, "line " + std::to_string(seed), "it is broken", ""};
    return good.next();
  }
};

} // namespace

TEST_CASE("each seed has the figures of serve, whatever the number of threads") {
  const std::vector<std::uint64_t> seeds{3, 1, 9, 4};
  std::vector<std::vector<double>> first;
  for (const unsigned threads : {1U, 2U, 5U, 0U}) {
    const auto served = serve_seeds<VllmRecompute, VllmSwap>(small_server(), seeds, workload, {.threads = threads});
    REQUIRE(served.has_value());
    const auto& [recompute, swap] = *served;
    std::vector<std::vector<double>> all;
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      CHECK(figures(recompute.each[i]) == figures(*serve<VllmRecompute>(small_server(), workload(seeds[i]))));
      CHECK(figures(swap.each[i]) == figures(*serve<VllmSwap>(small_server(), workload(seeds[i]))));
      all.push_back(figures(recompute.each[i]));
    }
    CHECK(recompute.seeds == seeds);
    if (first.empty()) first = all;
    CHECK(all == first);
  }
  CHECK(first[0] != first[1]); // seeds do differ
}

TEST_CASE("intervals and pairs use the seeds in order") {
  const auto served = serve_seeds<VllmRecompute, VllmSwap>(small_server(), seed_range(1, 6), workload);
  REQUIRE(served.has_value());
  const auto& [recompute, swap] = *served;
  const std::vector<double> values = recompute.values(&Metrics::mean_ttft_s);
  REQUIRE(values.size() == 6);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == recompute.each[i].mean_ttft_s);
  CHECK(recompute.interval(&Metrics::mean_ttft_s) == mean_interval(values));
  CHECK(recompute.interval([](const Metrics& m) { return m.served; }).mean == 12);
  const Paired of = paired(recompute, swap, &Metrics::mean_ttft_s);
  CHECK(of.difference == paired(values, swap.values(&Metrics::mean_ttft_s)).difference);
  CHECK(of.wins + of.losses <= 6);
  CHECK(paired(recompute, recompute, &Metrics::mean_e2e_s).tie());
}

TEST_CASE("the error is the first failing seed's, whatever the threads, and names the seed") {
  for (const unsigned threads : {1U, 3U, 8U}) {
    const auto served = serve_seeds<VllmRecompute, VllmSwap>(small_server(), seed_range(1, 12),
                                                             [](std::uint64_t seed) {
                                                               return Broken{seed, Generator{spec(), seed}};
                                                             },
                                                             {.threads = threads});
    REQUIRE(!served.has_value());
    CHECK(served.error().line() == "seed 3: line 3: it is broken");
  }
}

TEST_CASE("jobs before an error finish, and jobs after it need not start") {
  for (const unsigned threads : {1U, 4U}) {
    std::vector<std::atomic<int>> begun(100);
    const Status status = run_each(begun.size(), threads, [&](std::size_t i) -> Status {
      ++begun[i];
      if (i == 41 || i == 43) return Error{ErrorCode::bad_input, std::to_string(i), "", ""};
      return {};
    });
    REQUIRE(!status.ok());
    CHECK(status.error().where == "41");
    for (std::size_t i = 0; i <= 41; ++i) CHECK(begun[i] == 1);
    CHECK(begun[99] == 0);
  }
  CHECK(run_each(0, 4, [](std::size_t) -> Status { return {}; }).ok());
}
