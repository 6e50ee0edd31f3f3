// SPDX-License-Identifier: Apache-2.0
// As windows get shorter, a fleet becomes what it is event by event.
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/fleet/scorers.hpp"

#include "fleet/by_events.hpp"

#include <cmath>

using namespace sluice;
using sluice_test::GroupedPrompts;
using sluice_test::Heard;
using sluice_test::small_server;

namespace {

/// The share of the requests that another engine gets than event by event, for each window.
template <class R>
std::vector<double> routed_apart(R router, std::initializer_list<double> windows, std::uint64_t seed) {
  GroupedPrompts reader(400, 40, 6, seed);
  const auto requests = read_all(reader);
  REQUIRE(requests);
  const auto exact = sluice_test::route_by_events<VllmRecompute>(4, small_server(), router, *requests);
  std::vector<double> shares;
  for (const double window : windows) {
    router.every = Seconds{window};
    Heard heard;
    sluice_test::serve_small<R, VllmRecompute>(4, 400, 40, router, {}, heard, seed);
    REQUIRE(heard.choices.size() == exact.size());
    double apart = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) apart += heard.choices[i].engine != exact[i] ? 1 : 0;
    shares.push_back(apart / static_cast<double>(exact.size()));
  }
  return shares;
}

} // namespace

TEST_CASE("windows of a microsecond route every request as events do, and long ones do not") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const auto& shares : {routed_apart(LeastLoaded{}, {2, 0.2, 0.001, 1e-6}, seed),
                               routed_apart(WeightedScorers<QueueScorer>{}, {2, 0.2, 0.001, 1e-6}, seed)}) {
      INFO(seed << ": " << shares[0] << " " << shares[1] << " " << shares[2]);
      CHECK(shares[3] == 0);
      CHECK(shares[0] > 0.1);
      CHECK(shares[2] < shares[0]);
    }
  }
}

TEST_CASE("the age of a report is the time since its engine's last iteration began, or since the window if it idled") {
  constexpr double window = 0.2;
  std::size_t busy = 0, idle = 0;
  for (const double rate : {1.0, 4.0, 20.0}) { // one engine: what it does depends on no router
    GroupedPrompts reader(150, rate, 6, 2);
    const auto requests = read_all(reader);
    REQUIRE(requests);
    auto engine = VllmRecompute::make(configure<VllmRecompute>(small_server()));
    REQUIRE(engine);
    std::vector<std::pair<double, double>> iterations; // begin and end
    for (std::size_t next = 0;;) {
      for (; next < requests->size() && (*requests)[next].arrival <= engine->now(); ++next)
        REQUIRE(engine->submit((*requests)[next]));
      const double begin = engine->now().count();
      if (engine->step() == Stepped::ran) {
        iterations.emplace_back(begin, engine->now().count());
      } else {
        if (next == requests->size()) break;
        engine->idle_until((*requests)[next].arrival);
      }
    }
    Heard heard;
    const FleetSummary summary =
        sluice_test::serve_small<LeastLoaded, VllmRecompute>(1, 150, rate, LeastLoaded{Seconds{window}}, {}, heard, 2);
    CHECK(summary.windows == heard.windows);
    CHECK(summary.age.count() == 150);
    for (const FleetChoice& choice : heard.choices) {
      const double began = std::floor(choice.now.count() / window) * window;
      double told = began;
      for (const auto& [begin, end] : iterations)
        if (begin < began && end > began) told = begin;
      ++(told < began ? busy : idle);
      CHECK(choice.age.count() == doctest::Approx(choice.now.count() - told).epsilon(1e-9));
    }
  }
  CHECK(busy > 50);
  CHECK(idle > 50);
}
