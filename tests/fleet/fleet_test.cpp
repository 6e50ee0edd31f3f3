// SPDX-License-Identifier: Apache-2.0
// What holds for every fleet: requests are conserved, threads change nothing, and engines are engines.
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/fleet/by_forecast.hpp"
#include "sluice/fleet/by_session.hpp"
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/fleet/random_router.hpp"
#include "sluice/fleet/round_robin.hpp"
#include "sluice/fleet/scorers.hpp"

#include "fleet/small_fleet.hpp"

using namespace sluice;
using sluice_test::GroupedPrompts;
using sluice_test::Heard;
using sluice_test::serve_small;
using sluice_test::small_server;

namespace {

using Precise = WeightedScorers<QueueScorer, KvScorer, FoundScorer>;
using Estimated = WeightedScorers<QueueScorer, KvScorer, SentScorer>;

/// The requests of `all` whose number is `rest` modulo `of`.
class EveryNth {
 public:
  EveryNth(GroupedPrompts all, int of, int rest) : all_(std::move(all)), of_(of), rest_(rest) {}
  Expected<std::optional<RequestSpec>> next() {
    for (;;) {
      auto request = all_.next();
      if (!request || !*request || at_++ % of_ == rest_) return request;
    }
  }
  [[nodiscard]] std::span<const ContentPiece> content() const { return all_.content(); }

 private:
  GroupedPrompts all_;
  int of_, rest_, at_ = 0;
};

/// Chooses an engine that is not there.
struct BeyondTheLast {
  using role = roles::Router;
  static constexpr RouterReads reads{};
  struct State {};
  Seconds every{0.1};
  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest&, State&) const { return view.engines(); }
};

/// Counts what it sees of the limits of engines.
struct SeesLimits {
  using role = roles::Router;
  static constexpr RouterReads reads{.load = true};
  struct State {};
  Seconds every{0.1};
  int* seen = nullptr;
  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest& request, State& /*state*/) const {
    for (const EngineReport& report : view.reports) *seen += report.batch == 16 && report.chunk == Tokens{512} ? 1 : 0;
    return request.number % view.engines();
  }
};

/// Notes the forecast of the only engine.
struct NotesForecast {
  using role = roles::Router;
  static constexpr RouterReads reads = ByForecast::reads;
  struct State {};
  Seconds every{0.001};
  std::vector<double>* to = nullptr;
  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest& request, State& /*state*/) const {
    to->push_back(ByForecast::forecast(view, request, 0).count());
    return 0;
  }
};

/// Checks what it sees against what every engine says when it is asked.
template <class E>
struct AsksAll {
  using role = roles::Router;
  static constexpr RouterReads reads{.prefixes = true};
  struct State {};
  Seconds every{0.1};
  const Pool<E>* pool = nullptr;
  int* found = nullptr;
  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest& request, State& /*state*/) const {
    for (std::size_t i = 0; i < view.engines(); ++i) {
      CHECK(view.found[i] == pool->finds(i, request.keys));
      *found += view.found[i] > 0 ? 1 : 0;
    }
    return drawn(1, request.number, view.engines());
  }
};

template <class R>
void same_on_threads(R router) {
  Heard one, two, three;
  FleetSettings settings;
  const FleetSummary a = serve_small<R, VllmPrefixCaching>(5, 150, 30, router, settings, one);
  settings.threads = 2;
  const FleetSummary b = serve_small<R, VllmPrefixCaching>(5, 150, 30, router, settings, two);
  settings.threads = 3;
  const FleetSummary c = serve_small<R, VllmPrefixCaching>(5, 150, 30, router, settings, three);
  CHECK(a.digest.value() == b.digest.value());
  CHECK(a.digest.value() == c.digest.value());
  REQUIRE(one.choices.size() == three.choices.size());
  for (std::size_t i = 0; i < one.choices.size(); ++i) CHECK(one.choices[i].engine == three.choices[i].engine);
  CHECK(a.requests == 150);
}

} // namespace

TEST_CASE("behind a round robin, each engine does to the bit what it does alone with its part of the requests") {
  constexpr int engines = 3, requests = 120;
  Heard heard;
  const FleetSummary summary = serve_small<RoundRobin, VllmPrefixCaching>(engines, requests, 100, {}, {}, heard);
  CHECK(summary.preemptions > 0);
  CHECK(summary.found.count() > 0);
  for (int i = 0; i < engines; ++i) {
    using E = With<VllmPrefixCaching, Summary>;
    auto engine = E::make(configure<E>(small_server()));
    REQUIRE(engine);
    EveryNth reader(GroupedPrompts(requests, 100, 6, 1), engines, i);
    REQUIRE(simulate(*engine, reader));
    CHECK(engine->steps() == summary.engines[static_cast<std::size_t>(i)].steps);
    const auto ends = heard.sorted();
    for (std::size_t k = 0; k < ends.size() / engines; ++k) {
      const FleetEnd& end = ends[k * engines + static_cast<std::size_t>(i)];
      const RequestRecord& record = engine->observed<Summary>().requests[k];
      CHECK(end.engine == static_cast<std::uint32_t>(i));
      CHECK(end.first == record.first);
      CHECK(end.last == record.last);
      CHECK(end.found == record.found);
      CHECK(end.times_preempted == record.times_preempted);
    }
  }
}

TEST_CASE("the number of threads changes nothing, whatever the router reads") {
  same_on_threads(RoundRobin{});
  same_on_threads(LeastLoaded{});
  same_on_threads(RandomRouter{});
  same_on_threads(ByForecast{});
  same_on_threads(Precise{.scorers = {QueueScorer{2}, KvScorer{2}, FoundScorer{3}}});
  same_on_threads(Estimated{});
}

TEST_CASE("routers that read no reports choose alike in windows of any length") {
  const auto engines_of = [](auto router) {
    Heard heard;
    serve_small<decltype(router), VllmRecompute>(4, 100, 20, router, {}, heard);
    std::vector<std::uint32_t> engines;
    for (const FleetChoice& choice : heard.choices) engines.push_back(choice.engine);
    std::vector<Seconds> last;
    for (const FleetEnd& end : heard.sorted()) last.push_back(end.last);
    return std::pair{engines, last};
  };
  CHECK(engines_of(RoundRobin{Seconds{0.001}}) == engines_of(RoundRobin{Seconds{5}}));
  CHECK(engines_of(BySession{Seconds{0.001}}) == engines_of(BySession{Seconds{5}}));
  CHECK(engines_of(RandomRouter{Seconds{0.001}}) == engines_of(RandomRouter{Seconds{5}}));
}

TEST_CASE("a report is as old as its window, and an iteration") {
  Heard heard;
  const FleetSummary summary =
      serve_small<LeastLoaded, VllmRecompute>(3, 200, 30, LeastLoaded{Seconds{0.2}}, {}, heard);
  CHECK(summary.age.count() == 200);
  CHECK(summary.age.max() >= 0.15); // of 200 requests, some arrive late in their window
  CHECK(summary.age.max() < 0.2 + 0.2);
  double longest = 0, sum = 0;
  for (const FleetChoice& choice : heard.choices) {
    longest = std::max(longest, choice.age.count());
    sum += choice.age.count();
  }
  CHECK(summary.age.max() == longest);
  CHECK(summary.age.sum() == doctest::Approx(sum));
}

TEST_CASE("a router that finds prefixes finds more than one that draws") {
  Heard drawn, precise, estimated;
  const FleetSummary a = serve_small<RandomRouter, VllmPrefixCaching>(4, 300, 12, {}, {}, drawn);
  const FleetSummary b = serve_small<Precise, VllmPrefixCaching>(
      4, 300, 12, {.scorers = {QueueScorer{1}, KvScorer{1}, FoundScorer{3}}}, {}, precise);
  const FleetSummary c = serve_small<Estimated, VllmPrefixCaching>(
      4, 300, 12, {.scorers = {QueueScorer{1}, KvScorer{1}, SentScorer{3}}}, {}, estimated);
  CHECK(b.found > a.found);
  CHECK(c.found > a.found);
}

TEST_CASE("engines with tiers below their devices say what the tiers have") {
  Heard heard;
  auto fleet = make_fleet<WeightedScorers<FoundScorer>, HiCache>(3, small_server(150)); // the device forgets most
  REQUIRE(fleet);
  const FleetSummary summary = sluice_test::run_fleet(*fleet, GroupedPrompts(200, 6, 40, 1), heard);
  CHECK(summary.loaded.count() > 0);
  CHECK(summary.loaded <= summary.found);
}

TEST_CASE("an engine that is not asked for a prefix would have found nothing") {
  // Long enough that the record of what engines were sent is swept: 5,000 beginnings, most of them seen once.
  int found = 0;
  auto fleet = make_fleet<AsksAll<HiCache>, HiCache>(4, small_server(150), {Seconds{0.1}, nullptr, &found});
  REQUIRE(fleet);
  fleet->router().pool = &fleet->pool();
  Heard heard;
  sluice_test::run_fleet(*fleet, GroupedPrompts(9000, 60, 5000, 1), heard);
  CHECK(found > 1000);
}

TEST_CASE("an engine whose layers keep different KV is asked for every prefix that it may find") {
  // A layer keeps all, and one a state at each block's end: a prefix is found, and its first block alone is not.
  KvGroups kv;
  REQUIRE(kv.add(0, {.entry = 4096}));
  REQUIRE(kv.add(1, {.kind = KvKind::state, .entry = 65536}));
  const KvLayers layers{KvBlocks(kv, Tokens{16}), ReadLimits{kv}};
  using E = With<VllmPrefixCaching, KeepUntilOverwrittenAt<EveryBlock>>;
  using R = AsksAll<E>;
  int found = 0;
  Fleet<R, E>::Config config;
  config.routers[0].found = &found;
  auto engine = configure<Watched<E>>(small_server());
  engine.geometry.layers = 2;
  engine.geometry.layer_block_bytes = layers.blocks.quantum();
  engine.geometry.groups = &layers;
  engine.device_blocks = LayerBlocks{layers.blocks.room(150) * 4};
  std::get<0>(config.engines).assign(4, engine);
  auto fleet = Fleet<R, E>::make(std::move(config));
  REQUIRE(fleet);
  fleet->router().pool = &fleet->pool();
  Heard heard;
  sluice_test::run_fleet(*fleet, GroupedPrompts(9000, 60, 3000, 1), heard);
  CHECK(found > 30);
  // At least a beginning for each request that was sent to an engine first. Few of them are still in the caches.
  CHECK(fleet->pool().beginnings() < 4500);
}

TEST_CASE("a forecast is close to the TTFT that follows, beside decodes and in the middle of an iteration") {
  std::vector<RequestSpec> requests(100, RequestSpec{Seconds{0}, Tokens{16}, Tokens{400}, {}});
  // 60 tokens of an iteration are left for prompts: some prompts take one iteration, and the last takes 50.
  for (int i = 0; i < 20; ++i)
    requests.push_back({Seconds{0.001} * static_cast<double>(1000 + 53 * i), Tokens{60}, Tokens{1}, {}});
  requests.push_back({Seconds{0.001} * 2500.0, Tokens{3000}, Tokens{1}, {}});
  Server server = small_server(8000);
  server.limits = {.batch = 128, .batch_tokens = Tokens{160}};
  std::vector<double> forecasts;
  auto fleet = make_fleet<NotesForecast, VllmRecompute>(1, server, {Seconds{0.001}, &forecasts});
  REQUIRE(fleet);
  Heard heard;
  sluice_test::run_fleet(*fleet, sluice_test::Listed(requests), heard);
  const std::vector<FleetEnd> ends = heard.sorted();
  REQUIRE(forecasts.size() == ends.size());
  for (std::size_t i = 100; i < ends.size(); ++i)
    CHECK(forecasts[i] == doctest::Approx(ends[i].ttft().count()).epsilon(0.15));
}

TEST_CASE("a router that reads loads sees how much engines run at once, from its first choice on") {
  int seen = 0;
  Heard heard;
  serve_small<SeesLimits, VllmRecompute>(3, 20, 10, {Seconds{0.1}, &seen}, {}, heard);
  CHECK(seen == 20 * 3);
}

TEST_CASE("a router that reads prefixes alone knows their age") {
  Heard heard;
  const FleetSummary summary =
      serve_small<WeightedScorers<FoundScorer>, VllmPrefixCaching>(3, 100, 30, {Seconds{0.2}}, {}, heard);
  CHECK(summary.age.count() == 100);
  CHECK(summary.age.max() > 0.1);
}

TEST_CASE("a session's request arrives after the answer before it, and its window waits for no other") {
  const auto spec = parse_sessions("chat:sessions=20,rate=2,turns=4,first=300,growth=50,output=30,user=1");
  REQUIRE(spec);
  auto fleet = make_fleet<BySession, VllmPrefixCaching>(4, small_server());
  REQUIRE(fleet);
  Heard heard;
  sluice_test::run_fleet(*fleet, SessionGenerator(*spec, 1), heard);
  CHECK(heard.ends.size() == 80);
  std::vector<std::uint32_t> engine_of(21, 99);
  for (const FleetEnd& end : heard.sorted()) {
    std::uint32_t& engine = engine_of[end.spec.session];
    if (engine == 99) engine = end.engine;
    CHECK(end.engine == engine);
    if (end.spec.turn > 0) {
      bool after = false;
      for (const FleetEnd& before : heard.ends)
        after = after || (before.spec.session == end.spec.session && before.spec.turn == end.spec.turn - 1 &&
                          before.last <= end.spec.arrival);
      CHECK(after);
    }
  }
}

TEST_CASE("a router's engine that takes no requests ends the run with a line") {
  auto fleet = make_fleet<BeyondTheLast, VllmRecompute>(2, small_server());
  REQUIRE(fleet);
  GroupedPrompts reader(3, 1, 1, 1);
  const Status status = fleet->run(reader);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().line() == "router: it chose engine 2, which takes no requests; expected an engine of view.open");
}

TEST_CASE("invalid configurations are rejected with a line") {
  const auto line = [](auto change) {
    Fleet<LeastLoaded, VllmRecompute>::Config config;
    std::get<0>(config.engines).assign(2, configure<Watched<VllmRecompute>>(small_server()));
    change(config);
    const auto fleet = Fleet<LeastLoaded, VllmRecompute>::make(std::move(config));
    REQUIRE_FALSE(fleet);
    return fleet.error().line();
  };
  CHECK(line([](auto& config) { std::get<0>(config.engines).clear(); }) ==
        "fleet: a pool has no engine; expected at least one");
  CHECK(line([](auto& config) { config.routers[0].every = Seconds{0}; }) ==
        "router: its `every` is not above 0 s; expected 0.1 s, for example");
  CHECK(line([](auto& config) {
          config.settings.failures.at = {{Seconds{1}, 2}};
        }) == "failures: engine 2 dies, and there is none of that number; expected 0 to 1");
  CHECK(line([](auto& config) { std::get<0>(config.engines)[1].limits.block_tokens = Tokens{32}; }) ==
        "fleet: engines have blocks of 16 and of 32 tokens; expected blocks of one size");
  CHECK(line([](auto& config) { config.settings.scaler.first = 3; }) ==
        "scaler: it starts with more engines than the first pool has; expected at most their number");
  CHECK(line([](auto& config) { std::get<0>(config.engines)[1].limits.batch = 0; }).find("engine 1: ") == 0);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  CHECK(line([](auto& config) { config.routers[0].every = Seconds{1e-20}; }) ==
        "router: its `every` is below a nanosecond; expected 0.1 s, for example");
  CHECK(line([](auto& config) { config.routers[0].every = Seconds{infinite}; }) ==
        "router: its `every` is infinite; expected 0.1 s, for example");
  for (const double bad : {-1.0, nan, infinite}) {
    const std::string s = std::to_string(bad) + " s; expected a time from 0 s";
    CHECK(line([bad](auto& config) { config.settings.handoff.latency = Seconds{bad}; }) ==
          "handoff: its latency is " + s);
    CHECK(line([bad](auto& config) { config.settings.scaler.delay = Seconds{bad}; }) == "scaler: its delay is " + s);
    if (bad == infinite) continue; // never
    CHECK(line([bad](auto& config) {
            config.settings.failures.at = {{Seconds{bad}, 1}};
          }) == "failures: engine 1 dies at " + s);
  }
  CHECK(line([](auto& config) { config.settings.scaler.most_waiting = nan; }) ==
        "scaler: its most waiting requests are " + std::to_string(nan) + "; expected a number from 0");
}

TEST_CASE("a request that arrives after more windows than can be counted ends the run with a line") {
  auto fleet = make_fleet<RoundRobin, VllmRecompute>(1, small_server(), {Seconds{1e-6}});
  REQUIRE(fleet);
  GroupedPrompts reader(2, 1e-11, 1, 1); // the second one arrives after 10^10 s
  const Status status = fleet->run(reader);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().line().find("expected at most 2^53 windows of the router's `every`") != std::string::npos);
}
