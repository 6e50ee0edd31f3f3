// SPDX-License-Identifier: Apache-2.0
// Two pools: prompts here, answers there, and the KV in between.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/fleet/least_loaded.hpp"
#include "sluice/fleet/random_router.hpp"
#include "sluice/fleet/round_robin.hpp"

#include "fleet/small_fleet.hpp"

using namespace sluice;
using sluice_test::GroupedPrompts;
using sluice_test::Heard;
using sluice_test::small_server;

namespace {

template <class R, class Prefill, class Decode>
FleetSummary serve_apart(FleetSettings settings, Heard& heard, std::size_t prefills = 2, std::size_t decodes = 3,
                         R router = {}, int requests = 150, std::int64_t decode_blocks = 700) {
  typename Fleet<R, Prefill, Decode>::Config config;
  config.routers = {router, router};
  config.settings = settings;
  std::get<0>(config.engines).assign(prefills, configure<Watched<Prefill>>(small_server()));
  std::get<1>(config.engines).assign(decodes, configure<Watched<Decode>>(small_server(decode_blocks)));
  auto fleet = Fleet<R, Prefill, Decode>::make(std::move(config));
  REQUIRE(fleet);
  const FleetSummary summary = sluice_test::run_fleet(*fleet, GroupedPrompts(requests, 20, 6, 3), heard);
  std::int64_t several = 0;
  for (const FleetEnd& end : heard.ends) {
    several += end.spec.output.count() > 1 ? 1 : 0;
    CHECK(end.first_engine < prefills);
    // A resumed request may end with the token of its second prefill.
    if (end.times_interrupted == 0) CHECK((end.engine >= prefills) == (end.spec.output.count() > 1));
  }
  if (summary.interrupted == 0) CHECK(summary.handed == several); // the others end with their first token
  CHECK(several < summary.requests);
  return summary;
}

} // namespace

TEST_CASE("a prompt's KV arrives after its bytes and its latency, one after another on a link") {
  const Handoff whole{BytesPerSecond{1e9}, Seconds{0.01}};
  Seconds link{0};
  CHECK(whole.arrival(Bytes{500'000'000}, 10, Seconds{1}, Seconds{2}, link).count() == doctest::Approx(2.51));
  CHECK(link.count() == doctest::Approx(2.5));
  CHECK(whole.arrival(Bytes{100'000'000}, 10, Seconds{2}, Seconds{2.1}, link).count() ==
        doctest::Approx(2.61)); // waits
  // Layer by layer, the last of ten layers leaves when it has been computed.
  Handoff layers = whole;
  layers.sends = Sends::by_layer;
  link = Seconds{0};
  CHECK(layers.arrival(Bytes{500'000'000}, 10, Seconds{1}, Seconds{2}, link).count() == doctest::Approx(2.06));
  // If the network is the slower, its bytes count from the start.
  CHECK(layers.arrival(Bytes{3'000'000'000}, 10, Seconds{3}, Seconds{4}, link).count() == doctest::Approx(6.01));
}

TEST_CASE("every request has its first token from one pool and the others from the other") {
  FleetSettings settings;
  settings.handoff = {BytesPerSecond{10e9}, Seconds{0.001}};
  Heard plain, cached, tiers, layered;
  const FleetSummary a = serve_apart<LeastLoaded, VllmRecompute, VllmRecompute>(settings, plain);
  serve_apart<LeastLoaded, VllmPrefixCaching, VllmPrefixCaching>(settings, cached);
  serve_apart<LeastLoaded, VllmPrefixCaching, HiCache>(settings, tiers);
  serve_apart<LeastLoaded, VllmRecompute, OrbitFlow>(settings, layered);
  CHECK(a.handed_bytes > Bytes{0});
  CHECK(a.handoff.count() == a.handed);
  // 400 to 1,200 tokens of 128 KiB at 10 GB/s, and links that are rarely busy.
  CHECK(a.handoff.quantile(0.5) > 0.001 + 400 * 131072 / 10e9);
  CHECK(a.handoff.quantile(0.5) < 0.001 + 1200 * 131072 / 10e9);
}

TEST_CASE("threads change nothing in two pools") {
  FleetSettings settings;
  settings.handoff = {BytesPerSecond{10e9}, Seconds{0.001}};
  Heard one, two;
  const FleetSummary a = serve_apart<LeastLoaded, VllmPrefixCaching, VllmRecompute>(settings, one);
  settings.threads = 3;
  const FleetSummary b = serve_apart<LeastLoaded, VllmPrefixCaching, VllmRecompute>(settings, two);
  CHECK(a.digest.value() == b.digest.value());
}

TEST_CASE("between pools nothing waits for a window: their length changes nothing behind round robins") {
  FleetSettings settings;
  settings.handoff = {BytesPerSecond{5e9}, Seconds{0.002}};
  Heard brief, lengthy;
  serve_apart<RoundRobin, VllmRecompute, VllmRecompute>(settings, brief, 2, 3, RoundRobin{Seconds{0.01}});
  serve_apart<RoundRobin, VllmRecompute, VllmRecompute>(settings, lengthy, 2, 3, RoundRobin{Seconds{3}});
  const auto a = brief.sorted(), b = lengthy.sorted();
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].first == b[i].first);
    CHECK(a[i].last == b[i].last);
    CHECK(a[i].engine == b[i].engine);
  }
}

TEST_CASE("a slow network delays second tokens and no first one") {
  FleetSettings fast, slow;
  fast.handoff = {BytesPerSecond{1e12}, Seconds{0}};
  slow.handoff = {BytesPerSecond{1e12}, Seconds{2}};
  Heard quick, late;
  // One request per engine at a time, so that nothing else changes.
  serve_apart<RoundRobin, VllmRecompute, VllmRecompute>(fast, quick, 2, 60, {}, 60);
  serve_apart<RoundRobin, VllmRecompute, VllmRecompute>(slow, late, 2, 60, {}, 60);
  const auto a = quick.sorted(), b = late.sorted();
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].first == b[i].first);
    if (a[i].spec.output.count() > 1) CHECK((b[i].last - a[i].last).count() == doctest::Approx(2).epsilon(1e-6));
  }
}

TEST_CASE("KV that arrives is not computed, takes room, and is computed again after a preemption") {
  const auto steps = [](Tokens arrived, bool cached) {
    using E = VllmRecompute;
    using C = VllmPrefixCaching;
    const auto run = [&]<class X>() {
      auto engine = X::make(configure<X>(small_server()));
      REQUIRE(engine);
      REQUIRE(engine->submit({Seconds{0}, Tokens{1001}, Tokens{10}, {}}, {}, Tokens{0}, arrived));
      REQUIRE(engine->step() == Stepped::ran);
      const LayerBlocks used = engine->counts().used;
      CHECK(used == LayerBlocks{32 * 63}); // of 1,001 tokens, in blocks of 16
      while (engine->step() == Stepped::ran) {
      }
      CHECK(engine->counts().used == LayerBlocks{0});
      return std::pair{engine->steps(), engine->now()};
    };
    return cached ? run.template operator()<C>() : run.template operator()<E>();
  };
  const auto before = [&](bool cached) { return steps(Tokens{1000}, cached); };
  for (const bool cached : {false, true}) {
    CHECK(before(cached).first == 10); // one token an iteration
    CHECK(before(cached).second < steps(Tokens{500}, cached).second);
  }
  // Engines that keep no released block compute it again, whether or not they have a tier, which is empty here.
  const auto pressed = [&]<class X>(Tokens arrived) {
    auto config = configure<X>(small_server());
    config.device_blocks = LayerBlocks{32 * 130}; // both requests start, and one cannot end beside the other
    config.limits.batch_tokens = Tokens{64};
    if constexpr (has_tiers<X>) config.tier.capacity = TokenBlocks{0};
    auto engine = X::make(std::move(config));
    REQUIRE(engine);
    for (int i = 0; i < 2; ++i)
      REQUIRE(engine->submit({Seconds{0}, Tokens{1001}, Tokens{100}, {}}, {}, Tokens{0}, arrived));
    while (engine->step() == Stepped::ran) {
    }
    return engine->steps();
  };
  const std::int64_t again = pressed.template operator()<VllmRecompute>(Tokens{1000});
  CHECK(again > 100 + 1000 / 64); // a prompt was computed after all
  CHECK(pressed.template operator()<With<VllmRecompute, HiCacheRule>>(Tokens{1000}) == again);
  // Under pressure engines preempt, and requests still end with all their tokens (run_fleet checks).
  FleetSettings settings;
  Heard plain, caching;
  const FleetSummary a = serve_apart<LeastLoaded, VllmRecompute, VllmRecompute>(settings, plain, 3, 1, {}, 150, 200);
  const FleetSummary b =
      serve_apart<LeastLoaded, VllmRecompute, VllmPrefixCaching>(settings, caching, 3, 1, {}, 150, 200);
  CHECK(a.preemptions > 0);
  CHECK(b.preemptions > 0);
}

TEST_CASE("KV that cannot arrive is refused with a line") {
  auto engine = VllmRecompute::make(configure<VllmRecompute>(small_server()));
  REQUIRE(engine);
  const auto refused = engine->submit({Seconds{0}, Tokens{100}, Tokens{10}, {}}, {}, Tokens{0}, Tokens{100});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().line() ==
        "request 0: it arrives with KV of 100 tokens of its prompt of 100; expected fewer: the "
        "last token is computed, because its output is needed");
}

TEST_CASE("KV that arrives is no prefix hit, in neither pool") {
  FleetSettings settings;
  settings.handoff = {BytesPerSecond{10e9}, Seconds{0.001}};
  Heard plain, cached, decode_cached, dead;
  const FleetSummary none = serve_apart<RoundRobin, VllmRecompute, VllmRecompute>(settings, plain);
  CHECK(none.found.count() == 0);
  std::int64_t arrived = 0;
  for (const FleetEnd& end : plain.ends) {
    CHECK(end.arrived == (end.spec.output.count() > 1 ? end.spec.prompt : Tokens{0}));
    arrived += end.arrived.count();
  }
  CHECK(none.arrived == Tokens{arrived});
  // What the engines that compute prompts find is what they find without a second pool.
  const FleetSummary two = serve_apart<RoundRobin, VllmPrefixCaching, VllmRecompute>(settings, cached);
  CHECK(two.found.count() > 0);
  CHECK(two.found < two.prompts);
  const FleetSummary both = serve_apart<RoundRobin, VllmPrefixCaching, VllmPrefixCaching>(settings, decode_cached);
  CHECK(both.found == two.found);
  CHECK(both.arrived == none.arrived);
  // An engine that dies loses KV that arrived.
  settings.failures.at = {{Seconds{3}, 2}};
  const FleetSummary less = serve_apart<RoundRobin, VllmRecompute, VllmRecompute>(settings, dead);
  CHECK(less.interrupted > 0);
  CHECK(less.arrived > none.arrived); // some crossed twice
  CHECK(less.found.count() == 0);
}

TEST_CASE("an engine counts KV that arrived apart from what it found") {
  using E = With<VllmPrefixCaching, Summary>;
  auto engine = E::make(configure<E>(small_server()));
  REQUIRE(engine);
  std::vector<BlockKey> keys;
  const ContentPiece pieces[] = {{1, Tokens{1001}}};
  block_keys(pieces, Tokens{16}, keys);
  const auto serve_next = [&](Tokens arrived) {
    REQUIRE(engine->submit({engine->now(), Tokens{1001}, Tokens{3}, {}}, keys, Tokens{0}, arrived));
    while (engine->step() == Stepped::ran) {
    }
    return engine->observed<Summary>().requests.back().found;
  };
  CHECK(serve_next(Tokens{500}) == Tokens{0});
  CHECK(serve_next(Tokens{0}) == Tokens{992});
  CHECK(serve_next(Tokens{500}) == Tokens{492}); // beyond what arrived
  CHECK(serve_next(Tokens{1000}) == Tokens{0});
}

TEST_CASE("pools whose KV cannot be handed over are refused with a line") {
  using Pools = Fleet<RoundRobin, VllmRecompute, VllmRecompute>;
  const auto line = [](auto change) {
    Pools::Config config;
    std::get<0>(config.engines).assign(2, configure<Watched<VllmRecompute>>(small_server()));
    std::get<1>(config.engines).assign(1, configure<Watched<VllmRecompute>>(small_server()));
    change(config);
    const auto fleet = Pools::make(std::move(config));
    REQUIRE_FALSE(fleet);
    return fleet.error().line();
  };
  CHECK(line([](auto& config) { std::get<1>(config.engines)[0].geometry.layers = 16; }) ==
        "handoff: engines have KV of 32 and of 16 layers; expected engines of one model");
  CHECK(line([](auto& config) { std::get<0>(config.engines)[1].geometry.layer_block_bytes = Bytes{4096}; }) ==
        "handoff: engines have layer blocks of 65536 and of 4096 bytes; expected engines of one model, type of KV and "
        "number of devices");
  const KvLayers groups{};
  CHECK(line([&](auto& config) { std::get<0>(config.engines)[0].geometry.groups = &groups; }) ==
        "handoff: layers of a pool's model keep different amounts of KV; expected a model whose layers keep the same "
        "KV");
}

namespace {

/// An engine that a connector holds up while it copies KV that arrived.
struct CopyingEngine : Watched<VllmRecompute> {
  using Watched<VllmRecompute>::Watched;
  Expected<RequestId> submit(const RequestSpec& spec, std::span<const BlockKey> keys, Tokens on_host, Tokens arrived) {
    if (arrived > Tokens{0}) idle_until(now() + Seconds{0.07});
    return Watched<VllmRecompute>::submit(spec, keys, on_host, arrived);
  }
};

} // namespace

template <>
struct sluice::detail::WatchedEngine<CopyingEngine, sluice::Parts<sluice::FleetWatch>> {
  using type = CopyingEngine;
};

TEST_CASE("a copy that passes a window's end delays no request and starts no iteration before its time") {
  FleetSettings settings;
  settings.handoff = {BytesPerSecond{5e9}, Seconds{0.002}};
  Heard brief, lengthy;
  serve_apart<RoundRobin, VllmRecompute, CopyingEngine>(settings, brief, 2, 3, RoundRobin{Seconds{0.01}});
  serve_apart<RoundRobin, VllmRecompute, CopyingEngine>(settings, lengthy, 2, 3, RoundRobin{Seconds{3}});
  const auto a = brief.sorted(), b = lengthy.sorted();
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].first == b[i].first);
    CHECK(a[i].last == b[i].last);
  }
}

TEST_CASE("an engine that dies delivers no KV that has not arrived") {
  // When engine 0 dies, all KV that it sent is under way, or some of it.
  for (const double latency : {30.0, 0.6})
    for (const Interrupted what : {Interrupted::resumed, Interrupted::restarted}) {
      FleetSettings settings;
      settings.handoff = {BytesPerSecond{10e9}, Seconds{latency}};
      Heard whole, dead;
      const FleetSummary a = serve_apart<RoundRobin, VllmRecompute, VllmRecompute>(settings, whole, 2, 3, {}, 60);
      settings.failures = {{{Seconds{1}, 0}}, what};
      const FleetSummary b = serve_apart<RoundRobin, VllmRecompute, VllmRecompute>(settings, dead, 2, 3, {}, 60);
      CHECK(b.handoff.count() == b.handed);
      CHECK(b.interrupted > 0);
      int cut = 0, ended = 0;
      const std::vector<FleetEnd> before = whole.sorted(), after = dead.sorted();
      for (std::size_t i = 0; i < after.size(); ++i) {
        if (after[i].spec.output.count() == 1 || before[i].first_engine != 0) continue;
        if (after[i].engine < 2) {
          ++ended; // in the first pool, with the token of its second prefill
          continue;
        }
        const bool computed = before[i].first < Seconds{1};
        if (!computed || before[i].first + Seconds{latency} < Seconds{1.2}) continue; // its last iteration is shorter
        ++cut; // its KV was under way when the engine died
        CHECK(after[i].times_interrupted == 1);
        CHECK(after[i].last > Seconds{1 + latency});
        CHECK((after[i].first == before[i].first) == (what == Interrupted::resumed));
        CHECK(after[i].arrived == after[i].spec.prompt + Tokens{what == Interrupted::resumed ? 1 : 0});
      }
      CHECK(cut > 1);
      CHECK(b.handed + ended == a.handed); // each other request's KV arrives once
    }
}

namespace {

/// Notes the most that engines of its pool were sent, and had, to compute.
struct NotesPrompts {
  using role = roles::Router;
  static constexpr RouterReads reads{.prefill = true};
  struct State {};
  Seconds every{0.1};
  Tokens* sent = nullptr;
  Tokens* had = nullptr;
  Tokens* arrived = nullptr;
  [[nodiscard]] std::size_t choose(const FleetView& view, const RoutedRequest& request, State& /*state*/) const {
    for (std::size_t i = 0; i < view.engines(); ++i) {
      *sent = std::max(*sent, view.sent[i].prompts);
      *had = std::max(*had, view.reports[i].to_prefill);
    }
    *arrived += request.arrived;
    return request.number % view.engines();
  }
};

} // namespace

TEST_CASE("KV that arrives is nothing to compute, on its way, in a queue and in an engine") {
  using Pools = Fleet<NotesPrompts, VllmRecompute, VllmRecompute>;
  std::array<std::array<Tokens, 3>, 2> notes{};
  Pools::Config config;
  for (std::size_t pool = 0; pool < 2; ++pool)
    config.routers[pool] = {Seconds{0.1}, &notes[pool][0], &notes[pool][1], &notes[pool][2]};
  config.settings.handoff = {BytesPerSecond{10e9}, Seconds{0.5}};
  std::get<0>(config.engines).assign(2, configure<Watched<VllmRecompute>>(small_server()));
  std::get<1>(config.engines).assign(1, configure<Watched<VllmRecompute>>(small_server(3000))); // 16 run, others wait
  auto fleet = Pools::make(std::move(config));
  REQUIRE(fleet);
  Heard heard;
  const FleetSummary summary = sluice_test::run_fleet(*fleet, GroupedPrompts(150, 40, 6, 3), heard);
  CHECK(summary.preemptions == 0);
  CHECK(notes[0][0] > Tokens{400});
  CHECK(notes[0][1] > Tokens{400});
  CHECK(notes[0][2] == Tokens{0});
  CHECK(notes[1][0] > Tokens{0});
  CHECK(notes[1][0] < Tokens{150}); // the last token of each prompt
  CHECK(notes[1][1] < Tokens{150});
  CHECK(notes[1][2] == summary.arrived);
}

TEST_CASE("both pools of a fleet whose routers have one seed draw for themselves") {
  Heard heard;
  serve_apart<RandomRouter, VllmRecompute, VllmRecompute>({}, heard, 4, 4, {}, 400);
  double alike = 0, all = 0;
  for (const FleetEnd& end : heard.ends) {
    if (end.spec.output.count() == 1) continue;
    ++all;
    alike += end.engine == end.first_engine + 4 ? 1 : 0;
  }
  CHECK(alike / all > 0.15); // a quarter, and .1 is 4 standard deviations
  CHECK(alike / all < 0.35);
}
