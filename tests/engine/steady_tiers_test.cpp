// SPDX-License-Identifier: Apache-2.0
// Steady steps change nothing in engines with tiers: who runs, what is found, and every time, to the bit.
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/policy/lookahead/in_step.hpp"

#include "engine/noted_events.hpp"
#include "engine/small_tiers.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::testing::tiers {

namespace {

/// Counts how often it is asked; with `Steady` false, that is in every step.
template <class A, bool Steady>
struct Counted : A {
  static constexpr bool steady = Steady;

  std::int64_t* asked = nullptr;

  void propose(const View& view, typename A::State& state, Proposal& proposal) const {
    ++*asked;
    A::propose(view, state, proposal);
  }
};

/// Sessions of one to four turns that share the beginnings of their prompts, and say some hints.
std::vector<KeyedRequest> random_sessions(Random& random) {
  std::vector<KeyedRequest> all;
  const double gap = 0.3 * std::pow(100, random.uniform());
  double now = 0;
  for (std::uint64_t session = 1; session <= 8 + random.below(8); ++session) {
    const auto topic = 1 + random.below(4);
    const auto shared = static_cast<std::int64_t>(16 * random.below(14));
    double turn_at = now += gap * random.uniform();
    std::int64_t length = shared + 1 + static_cast<std::int64_t>(random.below(80));
    for (std::int32_t turn = 0; turn < 1 + static_cast<std::int32_t>(random.below(4)); ++turn) {
      KeyedRequest made = request(turn_at, 0, topic, shared, 0);
      const ContentPiece pieces[] = {{topic, Tokens{shared}}, {1000 + session, Tokens{length + 200 - shared}}};
      made.keys.clear();
      block_keys(pieces, Tokens{16}, made.keys); // of its answer, too
      made.spec.prompt = Tokens{length};
      made.spec.output = Tokens{static_cast<std::int64_t>(1 + random.below(150))};
      made.spec.slo = {Seconds{0.5}, Seconds{0.02 + 0.1 * random.uniform()}};
      made.spec.session = static_cast<std::uint32_t>(session);
      made.spec.turn = turn;
      if (random.below(3) == 0)
        made.spec.hints = {.ttl = Seconds{5 * random.uniform()},
                           .prefetch = Seconds{9 * random.uniform()},
                           .keep = static_cast<std::int32_t>(random.below(200)),
                           .release = random.below(2) == 0};
      all.push_back(std::move(made));
      length = std::min<std::int64_t>(length + all.back().spec.output.count() + 20, 330);
      turn_at += 2 + gap * 4 * random.uniform();
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const KeyedRequest& a, const KeyedRequest& b) { return a.spec.arrival < b.spec.arrival; });
  return all;
}

struct Ran {
  std::vector<Happened> events;
  std::vector<RequestRecord> records;
  std::int64_t steps = 0, asked = 0;
};

template <class System, bool Steady>
Ran ran(const std::vector<KeyedRequest>& requests, std::uint64_t seed) {
  using Asked = Counted<typename System::admission_type, Steady>;
  using E = With<System, Asked, SmallCost, BasicSimulated<SmallCost>, Summary, Notes>;
  Random random(seed);
  SmallCost cost;
  cost.rate = BytesPerSecond{5e4 * std::pow(1000, random.uniform())};
  if (random.below(2) == 0) cost.lanes = Lanes::each_way;
  std::vector<Tier> lower = lower_tiers(random);
  for (Tier& tier : lower)
    if (E::caching_type::feed == Feed::evicted && tier.replacement == Replacement::least_worth)
      tier.replacement = Replacement::adaptive;
  const auto device = static_cast<std::int64_t>(34 + random.below(120));
  typename E::Config config =
      config_of<E>(device, static_cast<std::int64_t>(random.below(300)), cost, std::move(lower));
  if (random.below(2) == 0) config.limits.batch = 1 + static_cast<int>(random.below(6));
  config.explains_misses = random.below(2) == 0;
  Ran result;
  std::get<Notes>(config.observers).into = &result.events;
  config.admission.asked = &result.asked;
  E engine = engine_of<E>(std::move(config));
  result.records = run(engine, requests);
  result.steps = engine.steps();
  return result;
}

template <class System>
void check_steady(const char* name) {
  INFO(std::string{name});
  std::int64_t steps = 0, asked = 0;
  Random random(23);
  for (std::uint64_t round = 0; round < (all_rounds ? 40u : 4u); ++round) {
    CAPTURE(round);
    const std::vector<KeyedRequest> requests = random_sessions(random);
    const Ran each = ran<System, false>(requests, round);
    const Ran steady = ran<System, true>(requests, round);
    REQUIRE(each.events.size() == steady.events.size());
    CHECK(each.events == steady.events);
    REQUIRE(each.records.size() == steady.records.size());
    for (std::size_t i = 0; i < each.records.size(); ++i) {
      CHECK(each.records[i].found == steady.records[i].found);
      CHECK(each.records[i].loaded == steady.records[i].loaded);
    }
    CHECK(each.asked >= each.steps);
    steps += steady.steps;
    asked += steady.asked;
  }
  if (!System::lookahead_type::ahead) CHECK_MESSAGE(2 * asked < steps, "most steps are steady");
}

} // namespace

#define SLUICE_STEADY(System)                                                                                          \
  TEST_CASE("steady steps with tiers change nothing: " #System) { check_steady<System>(#System); }

using OrbitFlowCachedInStep = With<OrbitFlowCached, InStep>;

SLUICE_STEADY(VllmOffload)
SLUICE_STEADY(Lmcache)
SLUICE_STEADY(HiCache)
SLUICE_STEADY(HiCacheBack)
SLUICE_STEADY(HiCacheIfFaster)
SLUICE_STEADY(HiCacheWithinSlos)
SLUICE_STEADY(Kvbm)
SLUICE_STEADY(MooncakeStore)
SLUICE_STEADY(Cake)
SLUICE_STEADY(OrbitFlowCached)
SLUICE_STEADY(OrbitFlowCachedInStep)
SLUICE_STEADY(CachedAttention)
SLUICE_STEADY(AdaptiveOffload)
SLUICE_STEADY(Continuum)
SLUICE_STEADY(InferCept)
SLUICE_STEADY(KvFlow)
SLUICE_STEADY(HiCacheHints)

} // namespace sluice::testing::tiers
