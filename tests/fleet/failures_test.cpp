// SPDX-License-Identifier: Apache-2.0
// Engines die and open: no request is lost.
#include "sluice/fleet/by_session.hpp"
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/fleet/round_robin.hpp"

#include "fleet/small_fleet.hpp"

using namespace sluice;
using sluice_test::GroupedPrompts;
using sluice_test::Heard;
using sluice_test::serve_small;
using sluice_test::small_server;

namespace {

template <class R>
FleetSummary serve_with(Failures failures, Heard& heard, int threads = 1) {
  FleetSettings settings;
  settings.failures = std::move(failures);
  settings.threads = threads;
  return serve_small<R, VllmPrefixCaching>(4, 200, 25, {}, settings, heard);
}

} // namespace

TEST_CASE("requests of dead engines end elsewhere, once, with all their tokens") {
  const std::vector<Failure> deaths{{Seconds{2}, 1}, {Seconds{3.05}, 3}, {Seconds{3.05}, 0}};
  for (const Interrupted what : {Interrupted::resumed, Interrupted::restarted}) {
    Heard heard;
    const FleetSummary summary = serve_with<LeastLoaded>({deaths, what}, heard); // checks that each ends once
    CHECK(summary.served == 200);
    CHECK(summary.interrupted > 0);
    CHECK((summary.lost.count() > 0) == (what == Interrupted::restarted));
    CHECK((summary.recomputed.count() > 0) == (what == Interrupted::resumed));
    std::int64_t interrupted = 0;
    for (const FleetEnd& end : heard.ends) {
      interrupted += end.times_interrupted;
      if (end.last > Seconds{4}) CHECK(end.engine == 2);
    }
    CHECK(interrupted == summary.interrupted);
    for (const FleetChoice& choice : heard.choices)
      if (choice.now > Seconds{3.2}) CHECK(choice.engine == 2);
    Heard threads;
    CHECK(serve_with<LeastLoaded>({deaths, what}, threads, 3).digest.value() == summary.digest.value());
  }
}

TEST_CASE("a client that keeps its tokens has its first one before the death, and one that loses them after") {
  Heard whole, resumed, restarted;
  serve_with<RoundRobin>({}, whole);
  serve_with<RoundRobin>({{{Seconds{3}, 1}}, Interrupted::resumed}, resumed);
  serve_with<RoundRobin>({{{Seconds{3}, 1}}, Interrupted::restarted}, restarted);
  const auto a = whole.sorted(), b = resumed.sorted(), c = restarted.sorted();
  int had = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (b[i].times_interrupted == 0 || a[i].first >= Seconds{3}) continue;
    ++had;
    CHECK(b[i].first == a[i].first);
    CHECK(c[i].first > Seconds{3});
    CHECK(c[i].last >= b[i].last - Seconds{0.5}); // what is generated again takes longer, up to other requests' turns
  }
  CHECK(had > 0);
}

TEST_CASE("only the sessions of a dead engine move") {
  const auto spec = parse_sessions("chat:sessions=60,rate=4,turns=5,first=200,growth=40,output=20,user=1");
  REQUIRE(spec);
  const auto engines_by_session = [&](std::vector<Failure> deaths) {
    FleetSettings settings;
    settings.failures.at = std::move(deaths);
    auto fleet = make_fleet<BySession, VllmPrefixCaching>(4, small_server(), {}, settings);
    REQUIRE(fleet);
    Heard heard;
    sluice_test::run_fleet(*fleet, SessionGenerator(*spec, 1), heard);
    std::vector<std::vector<std::uint32_t>> engines(61);
    for (const FleetEnd& end : heard.sorted()) engines[end.spec.session].push_back(end.engine);
    return engines;
  };
  const auto before = engines_by_session({}), after = engines_by_session({{Seconds{8}, 2}});
  int moved = 0;
  for (std::size_t i = 1; i < before.size(); ++i) {
    for (const std::uint32_t engine : after[i]) {
      if (before[i].front() != 2) CHECK(engine == before[i].front());
      if (before[i].front() == 2 && engine != 2) ++moved;
    }
  }
  CHECK(moved > 0);
}

TEST_CASE("a fleet whose engines are all dead says so") {
  FleetSettings settings;
  settings.failures.at = {{Seconds{1}, 0}, {Seconds{1}, 1}};
  auto fleet = make_fleet<RoundRobin, VllmRecompute>(2, small_server(), {}, settings);
  REQUIRE(fleet);
  GroupedPrompts reader(100, 10, 3, 1);
  const Status status = fleet->run(reader);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().line().find("no engine takes requests any more; expected an engine that lives") !=
        std::string::npos);
}

TEST_CASE("replicas that a scaler starts take requests after their delay, and help") {
  FleetSettings fixed, scaled;
  fixed.scaler = {.first = 1, .most_waiting = 1e9};
  scaled.scaler = {.first = 1, .most_waiting = 4, .delay = Seconds{2}, .every = Seconds{1}};
  Heard one, more;
  const FleetSummary a = serve_small<LeastLoaded, VllmRecompute>(4, 200, 25, {}, fixed, one);
  const FleetSummary b = serve_small<LeastLoaded, VllmRecompute>(4, 200, 25, {}, scaled, more);
  for (const FleetChoice& choice : one.choices) CHECK(choice.engine == 0);
  std::vector<double> first(4, 1e9);
  for (const FleetChoice& choice : more.choices)
    first[choice.engine] = std::min(first[choice.engine], choice.now.count());
  CHECK(first[0] < 1);
  CHECK(first[1] >= 3); // it looks at 0, 1, …; nothing waits at 0
  CHECK(first[1] < 1e9);
  CHECK(first[2] >= first[1] + 1); // one start a look
  CHECK(b.ttft.mean() < a.ttft.mean());
}
