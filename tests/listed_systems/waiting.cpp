// SPDX-License-Identifier: Apache-2.0
// Requests without an SLO beside a steady load of short ones: whom later ones overtake, in every listed system.
#include "sluice/core/random.hpp"

#include "listed_systems/small_world.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

using namespace sluice;

namespace {

/// When each request had its first token, and how many have ended.
struct FirstTokens final : EventListener {
  void hear(const AnyEvent& event) override {
    if (const auto* delivered = event.get<events::Delivered>())
      first.try_emplace(index(delivered->row.id), delivered->when);
    if (event.get<events::Ended>() != nullptr || event.get<events::Refused>() != nullptr) ++gone;
  }
  std::map<std::uint32_t, Seconds> first;
  int gone = 0;
};

struct Load {
  int users; ///< each sends a short request as soon as its last one has ended
  bool shorts_have_slo, longs_have_slo;
  TokenBlocks kv{200};
  std::int32_t longs_priority = 0;
};

/// Three long requests come to such a load. Returns how many requests that came later had their first token before one
/// of them did, at most, within 20,000 decode steps.
int overtaken(const engines::System& system, const Load& load) {
  testing::SmallWorld world;
  world.setup.device_blocks = across_layers(load.kv, world.model.layers);
  const double step_s = world.step(Tokens{1}).count();
  const Slo slo{Seconds{500 * step_s}, Seconds{5 * step_s}};
  FirstTokens heard;
  Expected<engines::Simulated> made = system.simulate({.setup = world.setup, .slo = slo, .listener = &heard});
  REQUIRE_MESSAGE(made, made.error().line());
  auto& engine = made->engine;
  Random random(7);
  int sent = 0;
  const auto send = [&](std::int64_t prompt, std::int64_t output, bool has_slo, std::int32_t priority) {
    RequestSpec spec;
    spec.arrival = engine.now();
    spec.prompt = Tokens{prompt};
    spec.output = Tokens{output};
    if (has_slo) spec.slo = slo;
    spec.priority = priority;
    ++sent;
    const Expected<RequestId> id = engine.submit(spec, {});
    REQUIRE_MESSAGE(id, id.error().line());
    return index(*id);
  };
  std::vector<std::uint32_t> longs;
  const auto started = [&](std::uint32_t id) { return heard.first.contains(id); };
  while (engine.now().count() < 20'000 * step_s) {
    while (sent - heard.gone < load.users + static_cast<int>(longs.size()))
      (void)send(40 + static_cast<std::int64_t>(random.below(60)), 20 + static_cast<std::int64_t>(random.below(40)),
                 load.shorts_have_slo, 0);
    if (longs.empty() && engine.now().count() > 200 * step_s)
      for (int i = 0; i < 3; ++i) longs.push_back(send(1200, 50, load.longs_have_slo, load.longs_priority));
    if (!longs.empty() && std::all_of(longs.begin(), longs.end(), started)) break;
    const Stepped stepped = engine.step();
    if (stepped == Stepped::failed) FAIL(engine.status().error().line());
    if (stepped == Stepped::idle) engine.idle_until(std::min(engine.next_load(), engine.now() + Seconds{step_s}));
  }
  std::int64_t most = 0;
  for (const std::uint32_t id : longs) {
    const auto passed = [&](const auto& other) {
      return other.first > longs.back() && (!started(id) || other.second < heard.first.at(id));
    };
    most = std::max<std::int64_t>(most, std::count_if(heard.first.begin(), heard.first.end(), passed));
  }
  return static_cast<int>(most);
}

/// The most of a few loads.
int overtaken(const engines::System& system, bool shorts_have_slo, bool longs_have_slo) {
  int most = 0;
  for (const int users : {12, 40})
    for (const TokenBlocks kv : {TokenBlocks{100}, TokenBlocks{200}})
      most = std::max(most, overtaken(system, {users, shorts_have_slo, longs_have_slo, kv}));
  return most;
}

/// docs/systems.md, "Who waits": systems in which more later requests than two for each earlier one come first.
struct Unfair {
  std::string_view name;
  bool without_slo, beside_slos, with_slo;
};
constexpr std::array unfair{
    Unfair{"SjfOracle", true, true, true},     Unfair{"LengthRanked", true, true, true},
    Unfair{"OrbitFlowSrtf", true, true, true}, Unfair{"AptServe", true, true, true},
    Unfair{"SuperInfer", true, true, true},    Unfair{"Scorpio", false, true, false},
    Unfair{"Confluence", false, false, true},
};

} // namespace

TEST_CASE(
    "requests age by arrival whatever their SLO, in every system of which docs/systems.md does not say otherwise") {
  for (const engines::System& system : engines::published()) {
    if (system.simulate == nullptr) continue;
    CAPTURE(system.name);
    const auto* const known =
        std::find_if(unfair.begin(), unfair.end(), [&](const Unfair& one) { return one.name == system.name; });
    const Unfair expected = known == unfair.end() ? Unfair{system.name, false, false, false} : *known;
    constexpr int fair = 6; // two for each of the three
    CHECK((overtaken(system, false, false) > fair) == expected.without_slo);
    CHECK((overtaken(system, true, false) > fair) == expected.beside_slos);
    CHECK((overtaken(system, true, true) > fair) == expected.with_slo);
  }
}

TEST_CASE("by priority, later requests of a lower number overtake without a limit, and of a larger one never") {
  for (const engines::System& system : engines::published()) {
    const bool by_priority = system.name == "VllmPriority" || system.name == "VllmPriorityPreempts";
    if (!by_priority && system.name != "VllmRecompute") continue;
    CAPTURE(system.name);
    constexpr int some = 100, fair = 6;
    const int last = overtaken(
        system,
        {.users = 40, .shorts_have_slo = false, .longs_have_slo = false, .kv = TokenBlocks{100}, .longs_priority = 1});
    const int first = overtaken(
        system,
        {.users = 40, .shorts_have_slo = false, .longs_have_slo = false, .kv = TokenBlocks{100}, .longs_priority = -1});
    CHECK((last > some) == by_priority);
    CHECK(first <= fair);
    if (by_priority) CHECK(first <= 2);
  }
}
