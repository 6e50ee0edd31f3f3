// SPDX-License-Identifier: Apache-2.0
// What clients say of their KV: each hint changes what it should where a policy reads it, and nothing elsewhere.
#include "sluice/engine/core/tiers.hpp"
#include "sluice/engine/node/node.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"

#include "engine/small_tiers.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace sluice::testing::tiers {

namespace {

/// A session's two turns, `later` seconds apart, with other requests in between that overwrite a small device.
std::vector<KeyedRequest> two_turns(const SessionHints& hints, double later = 100, std::uint64_t others = 4) {
  std::vector<KeyedRequest> all{request(0, 0, 1, 480, 20)};
  all[0].spec.session = 1;
  all[0].spec.hints = hints;
  for (std::uint64_t i = 1; i <= others; ++i) all.push_back(request(10.0 * static_cast<double>(i), i, 1 + i, 300, 20));
  all.push_back(request(later, 9, 1, 480, 60));
  all.back().spec.session = 1;
  all.back().spec.turn = 1;
  return all;
}

RequestSpec spec_with(const SessionHints& hints) {
  RequestSpec spec;
  spec.hints = hints;
  return spec;
}

template <class E>
RequestRecord last_of_turns(const SessionHints& hints, std::int64_t device, std::int64_t host, double later = 100) {
  Tried<E> engine = engine_of<Tried<E>>(device, host);
  return run(engine, two_turns(hints, later)).back();
}

/// Every hint, and all of them.
std::vector<SessionHints> every_hint() {
  return {{.ttl = Seconds{7}},
          {.prefetch = Seconds{30}},
          {.keep = 100},
          {.release = true},
          {.ttl = Seconds{7}, .prefetch = Seconds{30}, .keep = 40, .release = true}};
}

template <class E>
std::vector<RequestRecord> of_all(const std::vector<KeyedRequest>& requests, std::int64_t device = 60,
                                  std::int64_t host = 40) {
  Tried<E> engine = engine_of<Tried<E>>(device, host);
  return run(engine, requests);
}

} // namespace

TEST_CASE("hints: their names, what is said, and what is kept") {
  const SessionHints all{.ttl = Seconds{7}, .prefetch = Seconds{30}, .keep = 40, .release = true};
  CHECK(name(all.said()) == "ttl, keep, release, prefetch");
  CHECK(name(SessionHints{}.said()) == "none");
  CHECK_FALSE(SessionHints{}.said().any());
  CHECK(SessionHints{}.kept() > Tokens{1'000'000'000});
  CHECK(SessionHints{.release = true}.kept() == Tokens{0});
  CHECK(all.kept() == Tokens{40});
  CHECK(all.only({.ttl = true}) == SessionHints{.ttl = Seconds{7}});
  CHECK(all.only(all.said()) == all);
  CHECK((all.said() - HintSet{.ttl = true, .release = true}) == HintSet{.keep = true, .prefetch = true});
}

TEST_CASE("hints: which engines read which, and a policy sees no others") {
  CHECK(heeded_hints<Continuum> == HintSet{.ttl = true, .release = true});
  CHECK(heeded_hints<InferCept> == HintSet{.ttl = true, .release = true});
  CHECK(heeded_hints<KvFlow> == HintSet{.keep = true, .release = true, .prefetch = true});
  CHECK(heeded_hints<HiCacheHints> == HintSet{.ttl = true, .keep = true, .release = true, .prefetch = true});
  CHECK_FALSE(heeded_hints<CachedAttention>.any());
  CHECK_FALSE(heeded_hints<AdaptiveOffload>.any());
  CHECK_FALSE(heeded_hints<OrbitFlow>.any());
  RequestRow row;
  row.spec = spec_with(every_hint().back());
  CHECK(row.hints(heeded<PinSessions>) == SessionHints{.ttl = Seconds{7}, .release = true});
  CHECK(row.hints(heeded<KeepByHints>) == SessionHints{.keep = 40, .release = true});
}

TEST_CASE("hints that a system ignores change nothing, and without hints those that read them change nothing") {
  const auto same = [](const std::vector<RequestRecord>& a, const std::vector<RequestRecord>& b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].first == b[i].first);
      CHECK(a[i].last == b[i].last);
      CHECK(a[i].found == b[i].found);
      CHECK(a[i].loaded == b[i].loaded);
    }
  };
  for (const SessionHints& hints : every_hint()) {
    const auto ignores = [&]<class E>(std::type_identity<E>) {
      same(of_all<E>(two_turns(hints)), of_all<E>(two_turns({})));
    };
    ignores(std::type_identity<VllmPrefixCaching>{});
    ignores(std::type_identity<HiCache>{});
    ignores(std::type_identity<HiCacheBack>{});
    ignores(std::type_identity<CachedAttention>{});
    ignores(std::type_identity<AdaptiveOffload>{});
    ignores(std::type_identity<OrbitFlowCached>{});
  }
  for (const double later : {3.0, 45.0, 100.0}) {
    same(of_all<HiCacheHints>(two_turns({}, later)), of_all<HiCache>(two_turns({}, later)));
    same(of_all<With<VllmPrefixCaching, KeepByHints>>(two_turns({}, later)),
         of_all<VllmPrefixCaching>(two_turns({}, later)));
    same(of_all<With<HiCache, WithHints<PausesWhenSlow<HiCacheRule>>>>(two_turns({}, later)),
         of_all<With<HiCache, PausesWhenSlow<HiCacheRule>>>(two_turns({}, later)));
  }
}

TEST_CASE("ttl: the device holds the KV for so long, with a session or without, and not longer") {
  const auto found = [](double ttl, double later, std::uint32_t session = 1) {
    std::vector<KeyedRequest> all = two_turns({.ttl = Seconds{ttl}}, later);
    all.front().spec.session = all.back().spec.session = session;
    Tried<Continuum> engine = engine_of<Tried<Continuum>>(60, 0);
    return run(engine, all).back().found;
  };
  CHECK(found(0, 100) == Tokens{0}); // 2 s
  CHECK(found(200, 100) == Tokens{480});
  CHECK(found(200, 100, 0) == Tokens{480});
  CHECK(found(5, 100) == Tokens{0});
  // A longer one than `longest`, which the operator sets, pins nothing.
  const auto within = [](double longest) {
    typename Tried<HiCacheHints>::Config config = config_of<Tried<HiCacheHints>>(60, 10);
    config.caching.longest = Seconds{longest};
    Tried<HiCacheHints> engine = engine_of<Tried<HiCacheHints>>(std::move(config));
    return run(engine, two_turns({.ttl = Seconds{200}})).back().found;
  };
  CHECK(within(200) == Tokens{480});
  CHECK(within(199) == Tokens{0});
  // InferCept pins for a pause that wastes less than to compute again, and not for a longer one.
  Tried<InferCept> engine = engine_of<Tried<InferCept>>(60, 100);
  RequestRow row;
  row.computed = Tokens{480};
  const auto pinned = [&](const SessionHints& hints) {
    row.spec = spec_with(hints);
    return LeastWaste{}.worth(engine.view(), row, with_rate(1e9)).pinned;
  };
  const Seconds unsaid = pinned({});
  REQUIRE(unsaid > Seconds{0});
  CHECK(pinned({.ttl = unsaid * 0.5}) == unsaid * 0.5);
  CHECK(pinned({.ttl = unsaid * 1.5}) == Seconds{0});
  CHECK(pinned({.release = true}) == Seconds{0});
}

TEST_CASE("release: the device's blocks are overwritten first, and nothing is pinned or written") {
  using Device = With<VllmPrefixCaching, KeepByHints>;
  // The other requests need 21 blocks each: with a released session's they fit, and each other's stay.
  const auto of = [](const SessionHints& hints) {
    std::vector<KeyedRequest> all = two_turns(hints, 100, 2);
    all.insert(all.end() - 1, request(60, 20, 2, 300, 20)); // the first of the others comes again
    return of_all<Device>(all, 64, 0);
  };
  const std::vector<RequestRecord> said = of({.release = true}), unsaid = of({});
  CHECK(unsaid[3].found == Tokens{288});
  CHECK(said[3].found == Tokens{288});
  CHECK(said.back().found < unsaid.back().found);
  CHECK(last_of_turns<Continuum>({.ttl = Seconds{200}, .release = true}, 60, 0).found == Tokens{0});
  Tried<HiCacheHints> engine = engine_of<Tried<HiCacheHints>>(60, 100);
  const std::vector<KeyedRequest> all = two_turns({.release = true});
  (void)run(engine, {all[0]});
  CHECK(engine.tiers().store().size() == 0);
  CHECK(engine.pinned().count() == 0);
}

TEST_CASE("release: what another session has used keeps its place on the device and in the tier") {
  // Two sessions share 320 tokens; one is released. Others come until the device and the host must give up blocks.
  for (const bool released : {false, true}) {
    CAPTURE(released);
    std::vector<KeyedRequest> all;
    for (std::uint64_t i = 0; i < 3; ++i) {
      all.push_back(request(10.0 * static_cast<double>(i), i, 1, 320, 160));
      all.back().spec.session = static_cast<std::uint32_t>(1 + (i == 1 ? 1 : 0));
      all.back().spec.turn = i == 2 ? 1 : 0;
    }
    all[2].spec.hints.release = released;
    all.push_back(request(40, 7, 2, 160, 20));
    all.push_back(request(60, 8, 1, 320, 160));
    all.back().spec.session = 3;
    CHECK(of_all<HiCacheHints>(all, 62, 45).back().found == Tokens{320});
  }
}

TEST_CASE("release: a session's blocks leave a full tier first, and keep says how many stay") {
  const auto stay = [](const SessionHints& hints) {
    // The host has 60 blocks: 20 of another request, then 32 of a session's two turns, then 20 of a third request.
    Tried<HiCacheHints> engine = engine_of<Tried<HiCacheHints>>(60, 60);
    std::vector<KeyedRequest> all{request(0, 2, 2, 300, 20), request(10, 0, 1, 480, 20), request(20, 1, 1, 480, 20)};
    for (const std::size_t turn : {1u, 2u}) all[turn].spec.session = 1;
    all[2].spec.hints = hints;
    all.push_back(request(30, 3, 3, 300, 20));
    all.push_back(request(40, 4, 4, 16, 1)); // by then the others' blocks have crossed
    (void)run(engine, all);
    return std::pair{engine.tiers().store().find(all[0].keys), engine.tiers().store().find(all[2].keys)};
  };
  CHECK(stay({}).first < 20);
  CHECK(stay({}).second == 31); // all of its last turn
  CHECK(stay({.release = true}).first == 20);
  CHECK(stay({.release = true}).second < 20);
  CHECK(stay({.keep = 64}).first == 20);
  CHECK(stay({.keep = 64}).second >= 4);
  CHECK(stay({.keep = 64, .release = true}) == stay({.keep = 64}));
}

TEST_CASE("keep: only so many tokens reach the tier, and stay on the device") {
  Tried<HiCacheHints> engine = engine_of<Tried<HiCacheHints>>(60, 100);
  std::vector<KeyedRequest> all = two_turns({.keep = 100});
  (void)run(engine, {all[0], request(50, 99, 99, 16, 1)});
  CHECK(engine.tiers().store().find(all[0].keys) == 6);
  CHECK(last_of_turns<HiCacheHints>({.keep = 100}, 60, 200).found == Tokens{96});
  CHECK(last_of_turns<HiCacheHints>({}, 60, 200).found == Tokens{480});
}

TEST_CASE("prefetch: the KV is in the first tier when its session comes back, and the host keeps the soonest") {
  const Tier disk{TokenBlocks{1000}, Replacement::least_recent, BytesPerSecond{1e6}, BytesPerSecond{1e6}, Seconds{0.1}};
  const auto last = [&]<class E>(std::type_identity<E>, const SessionHints& hints, double later = 100) {
    Tried<E> engine = engine_of<Tried<E>>(40, 40, {}, {disk});
    return run(engine, two_turns(hints, later)).back();
  };
  using Hints = std::type_identity<HiCacheHints>;
  const RequestRecord unsaid = last(Hints{}, {}), said = last(Hints{}, {.prefetch = Seconds{95}});
  CHECK(unsaid.found == Tokens{480});
  CHECK(said.found == Tokens{480});
  CHECK(said.ttft() < unsaid.ttft());
  // Announced for much later, it is fetched as if nothing had been said.
  CHECK(last(Hints{}, {.prefetch = Seconds{3000}}).ttft() == unsaid.ttft());
  // KvFlow's host keeps what is announced: it finds all without a disk.
  using Flow = std::type_identity<KvFlow>;
  const auto on_host = [](auto type, const SessionHints& hints, double later) {
    using E = typename decltype(type)::type;
    return last_of_turns<E>(hints, 40, 40, later).found;
  };
  CHECK(on_host(Flow{}, {.prefetch = Seconds{95}}, 100) == Tokens{480});
  CHECK(on_host(Flow{}, {}, 100) < Tokens{480});
  CHECK(on_host(std::type_identity<CachedAttention>{}, {.prefetch = Seconds{95}}, 100) < Tokens{480});
  // Twice as late as announced, it is worth nothing.
  CHECK(on_host(Flow{}, {.prefetch = Seconds{6}}, 100) < Tokens{480});
}

TEST_CASE("hints on little memory: nothing is lost, and runs that look ahead or not keep their accounts") {
  Random random(11);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<KeyedRequest> all;
    double now = 0;
    for (std::uint64_t i = 0; i < 40; ++i) {
      now += 3 * random.uniform();
      const std::uint64_t session = 1 + random.below(6);
      all.push_back(request(now, i, session % 3, 16 * static_cast<std::int64_t>(random.below(20)),
                            1 + static_cast<std::int64_t>(random.below(100))));
      RequestSpec& spec = all.back().spec;
      spec.session = random.below(4) == 0 ? 0 : static_cast<std::uint32_t>(session);
      spec.output = Tokens{1 + static_cast<std::int64_t>(random.below(60))};
      if (random.below(3) == 0) spec.hints.ttl = Seconds{20 * random.uniform() + 0.1};
      if (random.below(3) == 0) spec.hints.prefetch = Seconds{5 * random.uniform() + 0.1};
      if (random.below(3) == 0) spec.hints.keep = static_cast<std::int32_t>(1 + random.below(300));
      spec.hints.release = random.below(3) == 0;
    }
    const auto device = 40 + static_cast<std::int64_t>(random.below(60));
    const auto host = static_cast<std::int64_t>(random.below(80));
    const std::vector<Tier> lower = lower_tiers(random);
    const auto check = [&]<class E>(std::type_identity<E>) {
      Tried<E> engine = engine_of<Tried<E>>(device, host, {}, lower);
      CHECK(run(engine, all).size() == all.size());
    };
    check(std::type_identity<HiCacheHints>{});
    check(std::type_identity<With<HiCacheHints, OneStepAhead>>{});
    check(std::type_identity<KvFlow>{});
    check(std::type_identity<With<KvFlow, OneStepAhead>>{});
    check(std::type_identity<Continuum>{});
    check(std::type_identity<InferCept>{});
    check(std::type_identity<With<HiCacheBack, KeepByHints, WithHints<HiCacheBackRule>>>{});
    check(std::type_identity<With<OrbitFlowCached, WithHints<HiCacheRule>>>{});
    check(std::type_identity<With<VllmPrefixCaching, KeepByHints>>{});
  }
}

namespace {

/// Reads no hint, and pins every session for 50 s.
struct PinsAll : HiCacheRule {
  template <class Cost>
  Worth worth(const View& /*view*/, const RequestRow& /*row*/, const Cost& /*cost*/) const {
    return {0, Seconds{50}};
  }
};

template <class E>
LayerBlocks pinned_after(const SessionHints& hints, std::uint32_t session) {
  KeyedRequest one = request(0, 0, 1, 480, 20);
  one.spec.session = session;
  one.spec.hints = hints;
  Tried<E> engine = engine_of<Tried<E>>(60, 100);
  REQUIRE(engine.submit(one.spec, one.keys));
  while (engine.step() == Stepped::ran) {
  }
  return engine.pinned();
}

} // namespace

TEST_CASE("ttl does not let a policy that reads no hint pin what it would not") {
  using E = With<VllmPrefixCaching, PinsAll>;
  CHECK(pinned_after<E>({}, 1) > LayerBlocks{0});
  CHECK(pinned_after<E>({}, 0) == LayerBlocks{0});
  CHECK(pinned_after<E>({.ttl = Seconds{1}}, 0) == LayerBlocks{0});
}

TEST_CASE("a pin holds no more than a client asks to keep, whatever Retention reads") {
  const SessionHints hints{.ttl = Seconds{4}, .keep = 64}; // 4 blocks of 4 layers
  CHECK(pinned_after<HiCacheHints>(hints, 1) == LayerBlocks{16});
  CHECK(pinned_after<With<VllmPrefixCaching, WithHints<HiCacheRule>>>(hints, 1) == LayerBlocks{16});
}

TEST_CASE("a session that releases all but some keeps these on the host") {
  const auto kept = []<class E>(std::type_identity<E>, std::int32_t keep) {
    std::vector<KeyedRequest> all{request(0, 7, 7, 300, 20), request(10, 0, 1, 480, 20), request(20, 1, 1, 480, 20),
                                  request(100, 2, 2, 300, 20), request(150, 3, 3, 16, 1)};
    all[1].spec.session = all[2].spec.session = 1;
    all[2].spec.hints = {.keep = keep, .release = true};
    Tried<E> engine = engine_of<Tried<E>>(60, 60);
    (void)run(engine, all);
    return engine.tiers().store().find(std::span(all[2].keys));
  };
  CHECK(kept(std::type_identity<KvFlow>{}, 320) >= 20);
  CHECK(kept(std::type_identity<HiCacheHints>{}, 0) < 20);
  CHECK(kept(std::type_identity<HiCacheHints>{}, 320) >= 20);
}

TEST_CASE(
    "what is announced is fetched when it is due, in whatever order it was announced and however often one asks") {
  for (const bool asked_between : {false, true}) {
    TierList list;
    list.first.capacity = TokenBlocks{100};
    list.lower = {{.capacity = TokenBlocks{100},
                   .read_rate = BytesPerSecond{1e3},
                   .write_rate = BytesPerSecond{1e9},
                   .latency = Seconds{0}}};
    Tiers tiers(list, Bytes{1000}, Feed::written);
    auto late = request(0, 0, 1, 80, 1).keys, soon = request(0, 1, 2, 80, 1).keys;
    late.resize(5);
    soon.resize(5);
    for (const auto* keys : {&late, &soon}) {
      tiers.write(*keys, 0, 0, Seconds{0});
      (void)tiers.launch();
      tiers.crossed(0, Seconds{1});
    }
    const auto none = [](auto&&...) {};
    tiers.arrive_by(Seconds{5}, none);
    tiers.limit(0, Seconds{6}); // all of it goes below
    tiers.limit(100, Seconds{6});
    REQUIRE(tiers.store().find(soon) == 0);
    tiers.expect({1, Slot{0}, 0, Seconds{10}, Seconds{990}}, late); // at 1000: 5 s of reading, from 995 on
    tiers.expect({2, Slot{1}, 0, Seconds{11}, Seconds{889}}, soon); // at 900
    if (asked_between) tiers.arrive_by(Seconds{896}, none);
    tiers.arrive_by(Seconds{998}, none);
    CHECK(tiers.store().find(soon) == 5);
    tiers.arrive_by(Seconds{1001}, none);
    CHECK(tiers.store().find(late) == 5);
  }
}

TEST_CASE("of engines that share tiers none discards what another one's sessions use") {
  using E = Tried<HiCacheHints>;
  const auto kept = [](std::size_t releaser, bool release) {
    auto config = [] {
      typename E::Config one;
      one.limits = {.batch = 256, .batch_tokens = Tokens{8192}, .max_context = Tokens{1 << 20}};
      one.geometry = {4, Bytes{4096}, Bytes{1 << 20}};
      one.device_blocks = LayerBlocks{800};
      one.tier = {.capacity = TokenBlocks{60}};
      one.cost.rate = BytesPerSecond{1e6};
      one.backend = BasicSimulated<SmallCost>{one.cost};
      return one;
    };
    auto node = Node<E, E>::make({.engines = {config(), config()}, .shares_tiers = true});
    REQUIRE(node);
    std::vector<KeyedRequest> all;
    std::vector<std::size_t> engines;
    const auto add = [&](double at, std::uint64_t topic, std::size_t engine, std::uint32_t session) {
      const ContentPiece pieces[] = {{topic, Tokens{480}}, {100 + all.size(), Tokens{20}}};
      all.push_back({{Seconds{at}, Tokens{500}, Tokens{2}, {}}, {}});
      block_keys(pieces, Tokens{16}, all.back().keys);
      all.back().spec.session = session;
      engines.push_back(engine);
    };
    const std::size_t other = 1 - releaser;
    add(0, 1, releaser, 1);
    add(100, 1, other, 2); // another session uses the same prefix
    add(200, 1, releaser, 1);
    all.back().spec.hints.release = release;
    add(300, 2, other, 3);
    for (std::size_t next = 0;;) {
      for (; next < all.size() && all[next].spec.arrival <= node->now(); ++next) node->submit(engines[next], all[next]);
      node->launch();
      REQUIRE(node->status().ok());
      const Seconds event = std::min(next < all.size() ? all[next].spec.arrival : never_due, node->next_event());
      if (event == never_due) break;
      node->advance(event);
    }
    return node->template engine<0>().tiers().store().find(std::span(all[1].keys).first(30));
  };
  for (const std::size_t releaser : {0UL, 1UL}) {
    CAPTURE(releaser);
    CHECK(kept(releaser, true) == kept(releaser, false));
    CHECK(kept(releaser, false) >= 29);
  }
}

} // namespace sluice::testing::tiers
