// SPDX-License-Identifier: Apache-2.0
// WorldOf: an engine compiled for `Cpu` decides the same on a simulated backend as an engine compiled for that backend.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/report/observer/decision_log.hpp"
#include "sluice/workload/generator.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/real/paced.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/simulated.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace sluice;

namespace {

std::vector<RequestSpec> requests_of(const std::string& text, std::uint64_t seed) {
  const auto spec = parse_generator(text);
  REQUIRE(spec);
  Generator generator(*spec, seed);
  auto requests = read_all(generator);
  REQUIRE(requests);
  for (RequestSpec& request : *requests) request.slo = {Seconds{5}, Seconds{0.05}};
  return *requests;
}

/// The log without planning times, which a backend in real time does not log.
std::string decisions_of(std::string log) {
  for (std::size_t at = 0; (at = log.find(" nodes in ", at)) != std::string::npos; at += 6)
    log.erase(at + 6, log.find('\n', at) - (at + 6));
  return log;
}

struct Ran {
  std::string decisions;
  std::vector<RequestRecord> requests;
  double end = 0, busy = 0, stall = 0;
  std::int64_t steps = 0;
};

template <class E>
Ran run(typename E::Config config, const std::vector<RequestSpec>& requests) {
  auto engine = E::make(std::move(config));
  REQUIRE(engine);
  std::size_t next = 0;
  while (true) {
    if (next < requests.size() && requests[next].arrival <= engine->now()) {
      (void)engine->submit(requests[next++]);
      continue;
    }
    const Stepped stepped = engine->step();
    REQUIRE(stepped != Stepped::failed);
    if (stepped == Stepped::ran) continue;
    if (next == requests.size()) break;
    engine->idle_until(requests[next].arrival);
  }
  const auto& summary = engine->template observed<Summary>();
  return {decisions_of(engine->template observed<DecisionLog>().text()),
          summary.requests,
          engine->now().count(),
          summary.busy_s,
          summary.stall_s,
          engine->steps()};
}

} // namespace

static_assert(Backend<Paced<Simulated>> && is_real_time<Paced<Simulated>>);
static_assert(Backend<EndsAt<Simulated>> && EndsRequests<EndsAt<Simulated>>);

TEST_CASE("VllmSwap behind the virtual interface decides the same, at the same times, as with the backend itself") {
  Limits limits;
  limits.batch = 8;
  limits.max_context = Tokens{4096};
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const Server server{llama3_8b(), *find_device("h100"), TokenBlocks{120}, limits};
    auto requests =
        requests_of("poisson:rate=20,requests=60,prompt=uniform(20,600),output=lognormal(150,0.8),longest=1500", seed);
    requests.push_back(requests.back());
    requests.back().arrival += Seconds{1e5}; // a day later, for the last check
    using Plain = With<VllmSwap, Summary, DecisionLog>;
    using OnWorld = With<VllmSwap, Cpu, Summary, DecisionLog>;
    const Ran plain = run<Plain>(configure<Plain>(server), requests);

    typename Plain::Config from = configure<Plain>(server);
    typename OnWorld::Config config{.limits = from.limits,
                                    .geometry = from.geometry,
                                    .device_blocks = from.device_blocks,
                                    .host_blocks = from.host_blocks,
                                    .cost = from.cost,
                                    .backend = Cpu{world_of(BasicSimulated{from.cost})}};
    const auto began = std::chrono::steady_clock::now();
    const Ran on_world = run<OnWorld>(std::move(config), requests);
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();

    CHECK(plain.decisions.find("preempt") != std::string::npos); // memory is tight: something moves
    CHECK(on_world.decisions == plain.decisions);
    CHECK(on_world.steps == plain.steps);
    CHECK(on_world.end == doctest::Approx(plain.end).epsilon(1e-9));
    CHECK(on_world.busy == doctest::Approx(plain.busy).epsilon(1e-9));
    CHECK(on_world.stall == doctest::Approx(plain.stall).epsilon(1e-9));
    REQUIRE(on_world.requests.size() == plain.requests.size());
    for (std::size_t i = 0; i < plain.requests.size(); ++i) {
      CHECK(on_world.requests[i].outcome == plain.requests[i].outcome);
      CHECK(on_world.requests[i].first.count() == doctest::Approx(plain.requests[i].first.count()).epsilon(1e-9));
      CHECK(on_world.requests[i].last.count() == doctest::Approx(plain.requests[i].last.count()).epsilon(1e-9));
    }
    CHECK(wall < plain.end); // time passes at once, however slow the machine is
  }
}
