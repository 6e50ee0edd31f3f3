// SPDX-License-Identifier: Apache-2.0
// Engines die and open: no request is lost.
#include "sluice/fleet/by_session.hpp"
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/fleet/round_robin.hpp"

#include "fleet/small_fleet.hpp"

using namespace sluice;
using sluice_test::GroupedPrompts;
using sluice_test::Heard;
using sluice_test::Listed;
using sluice_test::serve_small;
using sluice_test::small_server;

namespace {

RequestSpec request_at(double arrival, std::int64_t prompt = 500, std::int64_t output = 50) {
  return {Seconds{arrival}, Tokens{prompt}, Tokens{output}, {}};
}
/// Checks that a fleet serves all, and returns what it tells.
template <class R>
Heard serve_listed(std::size_t engines, const std::vector<RequestSpec>& requests, const FleetSettings& settings,
                   R router = {}) {
  auto fleet = make_fleet<R, VllmRecompute>(engines, small_server(), router, settings);
  REQUIRE(fleet);
  Heard heard;
  const FleetSummary summary = sluice_test::run_fleet(*fleet, Listed(requests), heard);
  CHECK(summary.served == static_cast<std::int64_t>(requests.size()));
  return heard;
}

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

TEST_CASE("a scaler replaces the last engine that died, with one that lives") {
  FleetSettings settings;
  settings.scaler = {.first = 1, .most_waiting = 100, .delay = Seconds{2}, .every = Seconds{1}};
  settings.failures.at = {{Seconds{3.5}, 0}, {Seconds{1.5}, 1}}; // the second one before anybody starts it
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 40; ++i) requests.push_back(request_at(0.1 * i));
  requests.push_back(request_at(20));
  const Heard heard = serve_listed<LeastLoaded>(3, requests, settings);
  for (const FleetChoice& choice : heard.choices) {
    CHECK(choice.engine != 1);
    if (choice.engine == 2) CHECK(choice.now >= Seconds{6}); // the look at 4 s, and the delay
    if (choice.now > Seconds{3.6}) CHECK(choice.engine == 2);
  }
  std::int64_t interrupted = 0;
  for (const FleetEnd& end : heard.ends) interrupted += end.times_interrupted;
  CHECK(interrupted > 0);
}

TEST_CASE("an engine that dies while all idle takes no request afterwards") {
  FleetSettings settings;
  for (const double death : {0.0, 3.0, 5.0, 5.04, 9.9}) { // windows of .1 s: some begin with a death
    settings.failures.at = {{Seconds{death}, 0}};
    const Heard heard = serve_listed<RoundRobin>(2, {request_at(0), request_at(10), request_at(10.01)}, settings);
    for (const FleetChoice& choice : heard.choices)
      if (choice.now > Seconds{death} || death == 0) CHECK(choice.engine == 1);
    for (const FleetEnd& end : heard.ends) CHECK(end.times_interrupted == 0);
  }
}

TEST_CASE("requests that a death returns are routed when it returns them, and all in order of time") {
  FleetSettings settings;
  settings.failures.at = {{Seconds{0.503}, 1}, {Seconds{1.207}, 2}, {Seconds{1.209}, 3}};
  std::vector<RequestSpec> requests;
  for (int i = 0; i < 300; ++i) requests.push_back(request_at(0.01 * i, 900, 40));
  for (const double window : {0.001, 0.05, 0.3}) {
    const Heard heard = serve_listed<RoundRobin>(5, requests, settings, RoundRobin{Seconds{window}});
    std::vector<Seconds> died(5, never_due);
    Seconds last{0};
    int returned = 0;
    std::vector<char> routed(requests.size());
    for (const FleetChoice& choice : heard.choices) {
      CHECK(choice.now >= last);
      last = choice.now;
      if (std::exchange(routed[choice.number], char{1}) != 0) {
        ++returned;
        // The iteration that ran at the death ends first.
        CHECK(choice.now > Seconds{0.503});
      }
    }
    CHECK(returned > 0);
  }
}

TEST_CASE("windows of any length return requests of a dead engine at the same time") {
  // The one request of an engine whose iteration runs at the death, and passes the ends of short windows.
  FleetSettings settings;
  settings.failures.at = {{Seconds{0.02}, 0}};
  std::vector<Seconds> routed;
  for (const double window : {0.001, 0.005, 0.019}) {
    const Heard heard = serve_listed<RoundRobin>(2, {request_at(0, 5000, 2)}, settings, RoundRobin{Seconds{window}});
    REQUIRE(heard.choices.size() == 2);
    routed.push_back(heard.choices.back().now);
  }
  auto engine = VllmRecompute::make(configure<VllmRecompute>(small_server()));
  REQUIRE(engine);
  REQUIRE(engine->submit(request_at(0, 5000, 2)));
  while (engine->now() < Seconds{0.02}) REQUIRE(engine->step() == Stepped::ran);
  CHECK(engine->now() > Seconds{0.021});
  for (const Seconds when : routed) CHECK(when >= engine->now());
  for (const Seconds when : routed) CHECK(when <= engine->now() + Seconds{0.02});
}

TEST_CASE("a death loses no count of preemptions") {
  GroupedPrompts reader(120, 60, 6, 1);
  const auto requests = read_all(reader);
  REQUIRE(requests);
  std::int64_t lost = 0;
  for (const double death : {1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0}) {
    FleetSettings settings;
    settings.failures = {{{Seconds{death}, 0}}, Interrupted::resumed};
    Heard heard;
    auto fleet = make_fleet<RoundRobin, VllmRecompute>(2, small_server(250), {}, settings);
    REQUIRE(fleet);
    const FleetSummary summary = sluice_test::run_fleet(*fleet, GroupedPrompts(120, 60, 6, 1), heard);
    // Engine 0 alone until then, which gets every second request.
    auto engine = VllmRecompute::make(configure<VllmRecompute>(small_server(250)));
    REQUIRE(engine);
    for (std::size_t next = 0; engine->now() < Seconds{death};) {
      for (; next < requests->size() && (*requests)[next].arrival <= engine->now(); next += 2)
        REQUIRE(engine->submit((*requests)[next]));
      if (engine->step() != Stepped::idle) continue;
      if (next >= requests->size()) break;
      engine->idle_until((*requests)[next].arrival);
    }
    const std::vector<FleetEnd> ends = heard.sorted();
    std::int64_t all = 0;
    for (const RequestRow& row : engine->view().rows) {
      if (row.phase == Phase::ended) continue;
      const FleetEnd& end = ends[2 * index(row.id)];
      CHECK(end.times_interrupted == 1);
      CHECK(end.times_preempted >= row.times_preempted);
      lost += row.times_preempted;
    }
    for (const FleetEnd& end : ends) all += end.times_preempted;
    CHECK(summary.preemptions == all);
  }
  CHECK(lost > 0);
}
