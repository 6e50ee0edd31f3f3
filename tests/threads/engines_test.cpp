// SPDX-License-Identifier: Apache-2.0
// Engines on several threads: they share nothing, so each serves as it does without the others, and ThreadSanitizer
// reports no race.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/workload/generator.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

using namespace sluice;

namespace {

/// A run's results except for wall times.
struct Served {
  std::string error = "did not run";
  std::array<double, 4> times{};
  std::array<std::int64_t, 5> counts{};
  friend bool operator==(const Served&, const Served&) = default;
};

/// The serving thread reads and makes everything: models, devices and generators are bound to no thread either.
template <class E>
Served serve_demo(std::uint64_t seed) {
  Expected<GeneratorSpec> spec =
      parse_generator("poisson:rate=20,requests=12,prompt=uniform(64,512),output=uniform(4,24)");
  if (!spec) return {.error = spec.error().line()};
  const Server server{llama3_8b(), a5000(), TokenBlocks{64}, {.batch = 4, .max_context = Tokens{1024}}};
  const Expected<Metrics> metrics = serve<E>(server, Generator{*spec, seed});
  if (!metrics) return {.error = metrics.error().line()};
  return {.error = {},
          .times = {metrics->mean_tbt_s, metrics->mean_ttft_s, metrics->stall_s, metrics->busy_s},
          .counts = {metrics->served, metrics->refused, metrics->bytes_moved, metrics->iterations, metrics->plans}};
}

} // namespace

TEST_CASE("engines of one type and of several, at once, serve as they do separately") {
  constexpr std::array runs{serve_demo<OrbitFlow>, serve_demo<OrbitFlow>, serve_demo<VllmSwap>, serve_demo<VllmSwap>};
  std::array<Served, runs.size()> together;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < runs.size(); ++i)
    threads.emplace_back([&together, &runs, i] { together[i] = runs[i](i + 1); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    CAPTURE(i);
    CHECK(together[i].error == "");
    CHECK(together[i].counts[0] > 0);
    CHECK(together[i] == runs[i](i + 1));
  }
}
