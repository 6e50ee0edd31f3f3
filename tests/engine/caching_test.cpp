// SPDX-License-Identifier: Apache-2.0
// Caching: KV that outlives its request in host memory: what it saves, what it moves, and what it never does.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/policy/caching/when_ended.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/workload/session_generator.hpp"

#include "engine/small_tiers.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// Not by `using`: files of a program compile together, and some have functions of these names.
namespace sluice::testing::tiers {

namespace {

/// Writes nothing from `apart` on; a request that arrives then computes everything.
struct OnceOffloaded : VllmOffloadRule {
  static constexpr Seconds apart{1000};
  Tokens write(const View& view, const RequestRow& row) const {
    return row.spec.arrival >= apart ? Tokens{0} : VllmOffloadRule::write(view, row);
  }
  template <class Cost>
  Reuse reuse(const View& view, const RequestRow& row, const FoundPrefix& found, const Cost& cost) const {
    return row.spec.arrival == apart ? Reuse{} : VllmOffloadRule::reuse(view, row, found, cost);
  }
};

/// CachedAttention's rule without its look at the queue.
struct BlindToQueue : QueueAware {
  static constexpr bool looks_ahead = false;
  template <class Cost>
  Worth worth(const View& /*view*/, const RequestRow& /*row*/, const Cost& /*cost*/) const {
    return {};
  }
};

} // namespace

TEST_CASE("over a fast link a load costs what a device hit costs; over a slow one IfFaster computes") {
  const std::vector<KeyedRequest> requests = again_after_others(480);
  using Device = Tried<VllmPrefixCaching>;
  Device ample = engine_of<Device>(1000, 0), small = engine_of<Device>(40, 0);
  const RequestRecord hit = run(ample, requests).back();
  REQUIRE(hit.found == Tokens{480});
  for (const double rate : {1e15, 4e4}) {
    const SmallCost cost = with_rate(rate);
    Device device = engine_of<Device>(40, 0, cost);
    const RequestRecord miss = run(device, requests).back();
    REQUIRE(miss.found == Tokens{0});
    REQUIRE(hit.ttft() < miss.ttft());
    const RequestRecord layerwise = last_of<Tried<HiCache>>(requests, cost);
    const RequestRecord if_faster = last_of<Tried<HiCacheIfFaster>>(requests, cost);
    const RequestRecord whole = last_of<Tried<Lmcache>>(requests, cost);
    const RequestRecord ahead = last_of<Tried<VllmOffload>>(requests, cost);
    CHECK(layerwise.loaded == Tokens{480});
    CHECK(whole.loaded == Tokens{256}); // whole chunks
    CHECK(layerwise.found == layerwise.loaded);
    CHECK(ahead.loaded == Tokens{480});
    if (rate > 1e10) { // except for the fixed time of each transfer
      CHECK(layerwise.ttft().count() == doctest::Approx(hit.ttft().count()).epsilon(0.01));
      CHECK(ahead.ttft().count() == doctest::Approx(hit.ttft().count()).epsilon(0.01));
      CHECK(if_faster.loaded == Tokens{480});
      CHECK(if_faster.ttft() == layerwise.ttft());
    } else {
      CHECK(layerwise.ttft() > miss.ttft());
      CHECK(if_faster.loaded == Tokens{0});
      CHECK(if_faster.ttft() == miss.ttft());
    }
  }
}

TEST_CASE("every full block is written once, and all that is written crosses the link") {
  // With room for all: each different block crosses once, whoever computed it, or was it loaded.
  const std::vector<KeyedRequest> requests = again_after_others(480);
  std::set<BlockKey> different;
  for (const KeyedRequest& one : requests) different.insert(one.keys.begin(), one.keys.end());
  const auto check = [&]<class E>(std::type_identity<E>) {
    E engine = engine_of<E>(40, 1000);
    std::vector<KeyedRequest> all = requests;
    all.push_back(request(2000, 99, 99, 1, 1)); // a last iteration, with which what is offered by then is counted
    run(engine, all);
    const auto& seen = engine.template observed<Summary>();
    CHECK(seen.to_host == across_layers(TokenBlocks{static_cast<std::int64_t>(different.size())}, layers));
    CHECK(seen.to_device == across_layers(TokenBlocks{480 / 16}, layers));
    CHECK(engine.tiers().store().size() == different.size());
    for (const BlockKey key : different) CHECK(engine.tiers().store().holds(key));
  };
  check(std::type_identity<Tried<HiCache>>{});
  check(std::type_identity<Tried<MooncakeStore>>{});
  check(std::type_identity<Tried<With<HiCache, BasicWriteThrough<Writes::waited>>>>{});
  check(std::type_identity<Tried<With<HiCache, OneStepAhead>>>{});
}

TEST_CASE("nothing is written to a host without room, unless a tier lies below it") {
  const std::vector<KeyedRequest> requests = again_after_others(480);
  const auto moved = [&]<class E>(std::type_identity<E>, std::vector<Tier> lower) {
    E engine = engine_of<E>(40, 0, {}, std::move(lower));
    const RequestRecord last = run(engine, requests).back();
    return std::pair{engine.template observed<Summary>().to_host.count(), last.loaded.count()};
  };
  const std::pair<std::int64_t, std::int64_t> nothing{0, 0};
  CHECK(moved(std::type_identity<Tried<HiCache>>{}, {}) == nothing);
  CHECK(moved(std::type_identity<Tried<HiCacheBack>>{}, {}) == nothing);
  CHECK(moved(std::type_identity<Tried<HiCache>>{}, {Tier{.capacity = TokenBlocks{1000}}}).first > 0);
}

TEST_CASE("an iteration that waits for its writes is longer than one that writes behind, on a slow link") {
  const std::vector<KeyedRequest> requests{request(0, 1, 1, 400, 20)};
  const auto end = [&]<class E>(std::type_identity<E>) {
    E engine = engine_of<E>(100, 1000, with_rate(2e5));
    return run(engine, requests).back().last;
  };
  using Waiting = Tried<With<HiCache, BasicWriteThrough<Writes::waited>>>;
  CHECK(end(std::type_identity<Tried<HiCache>>{}) < end(std::type_identity<Waiting>{}));
  CHECK(end(std::type_identity<Tried<HiCache>>{}) == end(std::type_identity<Tried<VllmPrefixCaching>>{}));
}

TEST_CASE("WhenEnded writes what WriteThrough writes, but nothing of a request that runs") {
  using Late = Tried<With<VllmPrefixCaching, WhenEnded<WriteThrough>>>;
  using Early = Tried<With<VllmPrefixCaching, WriteThrough>>;
  const auto requests = again_after_others(400);
  Late late = engine_of<Late>(60, 300);
  Early early = engine_of<Early>(60, 300);
  REQUIRE(late.submit(requests[0].spec, requests[0].keys));
  while (late.alive() > 0) {
    CHECK(late.tiers().store().size() == 0);
    REQUIRE(late.step() == Stepped::ran);
  }
  late.idle_until(Seconds{50});
  (void)late.step();
  CHECK(late.tiers().store().size() == 26); // of 421 tokens with KV
  const std::vector<KeyedRequest> rest(requests.begin() + 1, requests.end());
  const std::int64_t found = run(late, rest).back().found.count();
  CHECK(found >= 400);
  CHECK(found == run(early, requests).back().found.count());
}

TEST_CASE("a block that has not crossed the link yet is not found") {
  std::vector<KeyedRequest> requests{request(0, 0, 1, 480, 20)};
  for (std::uint64_t i = 1; i <= 4; ++i) requests.push_back(request(0.5, i, 1 + i, 300, 20)); // no pause between
  requests.push_back(request(0.6, 9, 1, 480, 20));
  const auto loaded = [&](double rate) {
    using E = Tried<HiCache>;
    E engine = engine_of<E>(40, 1000, with_rate(rate));
    return run(engine, requests).back().loaded;
  };
  CHECK(loaded(1e9) == Tokens{480});
  CHECK(loaded(1e3) == Tokens{0});
}

TEST_CASE("a convoy: one load serves all requests that need the same blocks") {
  std::vector<KeyedRequest> requests = again_after_others(480, 12);
  requests.pop_back();
  const auto with = [&](int waiters) {
    std::vector<KeyedRequest> all = requests;
    for (int i = 0; i < waiters; ++i) all.push_back(request(1000, 50 + static_cast<std::uint64_t>(i), 1, 480, 4));
    using E = Tried<HiCache>;
    E engine = engine_of<E>(140, 1000, with_rate(3e6));
    const std::vector<RequestRecord> records = run(engine, all);
    CHECK(engine.observed<Summary>().to_device == across_layers(TokenBlocks{480 / 16}, layers));
    std::int64_t loading = 0;
    Seconds latest{0};
    for (std::size_t i = requests.size(); i < records.size(); ++i) {
      CHECK(records[i].found == Tokens{480});
      loading += records[i].loaded.count() > 0 ? 1 : 0;
      latest = std::max(latest, records[i].ttft());
    }
    CHECK(loading == 1);
    return latest;
  };
  CHECK(with(50) <= with(1) * 1.2); // the load, and one more iteration
}

TEST_CASE("a request that waits for its load delays no other, and its load is over when its bytes have crossed") {
  // A request decodes; one arrives whose prefix is on the host. Over a slow link it waits, and the other decodes on.
  std::vector<KeyedRequest> requests = again_after_others(480);
  requests.back() = request(990, 8, 90, 1, 19);
  requests.back().spec.output = Tokens{400};
  requests.push_back(request(990.5, 9, 1, 480, 20));
  const SmallCost cost = with_rate(2e5);
  const double load_s = 30.0 * layers * 4096 / 2e5;
  const auto records = [&]<class E>(std::type_identity<E>) {
    E engine = engine_of<E>(60, 1000, cost);
    return run(engine, requests);
  };
  const std::vector<RequestRecord> ahead = records(std::type_identity<Tried<VllmOffload>>{});
  const std::vector<RequestRecord> whole = records(std::type_identity<Tried<With<VllmPrefixCaching, WriteThrough>>>{});
  REQUIRE(ahead.back().loaded == Tokens{480});
  REQUIRE(whole.back().loaded == Tokens{480});
  const RequestRecord& decoding = ahead[ahead.size() - 2];
  CHECK(decoding.longest_gap.count() < 0.02);
  CHECK(whole[whole.size() - 2].longest_gap.count() > load_s / 2); // each layer of the batch waits for the load
  CHECK(ahead.back().ttft().count() > load_s);
  CHECK(ahead.back().ttft().count() < load_s + 0.1); // and an iteration before, and one behind
}

TEST_CASE("a convoy whose requests wait for their load: one load, and no other request waits for it") {
  std::vector<KeyedRequest> requests = again_after_others(480, 12);
  requests.pop_back();
  const auto with = [&](int waiters) {
    std::vector<KeyedRequest> all = requests;
    all.push_back(request(1000, 49, 77, 300, 20)); // nobody else's
    for (int i = 0; i < waiters; ++i) all.push_back(request(1000, 50 + static_cast<std::uint64_t>(i), 1, 480, 4));
    using E = Tried<VllmOffload>;
    E engine = engine_of<E>(160, 1000, with_rate(1e6));
    const std::vector<RequestRecord> records = run(engine, all);
    CHECK(engine.observed<Summary>().to_device == across_layers(TokenBlocks{480 / 16}, layers));
    Seconds latest{0};
    for (std::size_t i = requests.size() + 1; i < records.size(); ++i) {
      CHECK(records[i].found == Tokens{480});
      latest = std::max(latest, records[i].ttft());
    }
    CHECK(records[requests.size()].ttft().count() < 0.1);
    return latest;
  };
  const Seconds one = with(1);
  CHECK(one.count() > 30.0 * layers * 4096 / 1e6);
  CHECK(with(50) <= one * 1.2);
}

TEST_CASE("Cake loads the end of a prefix while it computes the beginning: faster than either alone") {
  const std::vector<KeyedRequest> requests = again_after_others(480);
  for (const double rate : {1e7, 2e7, 3e7}) {
    CAPTURE(rate);
    const SmallCost cost = with_rate(rate);
    const RequestRecord cut = last_of<Tried<Cake>>(requests, cost);
    const RequestRecord load = last_of<Tried<VllmOffload>>(requests, cost);
    const RequestRecord compute = last_of<Tried<VllmPrefixCaching>>(requests, cost);
    CHECK(cut.found == cut.loaded);
    CHECK(cut.loaded > Tokens{0});
    CHECK(cut.loaded < Tokens{480});
    CHECK(cut.ttft() < load.ttft() + Seconds{0.006}); // one more iteration's fixed time
    CHECK(cut.ttft() < compute.ttft());
  }
  const SmallCost cost = with_rate(1e7);
  CHECK(last_of<Tried<Cake>>(requests, cost).ttft() < last_of<Tried<VllmOffload>>(requests, cost).ttft());
}

TEST_CASE(
    "a host that forgets finds blocks in an SSD again, at the SSD's rate, for as long as a request has patience") {
  const std::vector<KeyedRequest> requests = again_after_others(480, 8);
  const SmallCost cost = with_rate(1e9);
  const auto ssd = [](double rate) {
    return Tier{.capacity = TokenBlocks{1000},
                .read_rate = BytesPerSecond{rate},
                .write_rate = BytesPerSecond{1e9},
                .latency = Seconds{0.05}};
  };
  const double bytes = 30.0 * layers * 4096;
  using E = Tried<VllmOffload>;
  const RequestRecord miss = last_of<E>(requests, cost, 50), found = last_of<E>(requests, cost, 50, {ssd(1e6)});
  CHECK(miss.loaded == Tokens{0});
  CHECK(found.loaded == Tokens{480});
  CHECK(found.ttft().count() > 0.05 + bytes / 1e6);
  CHECK(found.ttft().count() < 0.05 + bytes / 1e6 + 0.05);
  // A pool below the SSD has what the SSD has lost.
  Tier small = ssd(1e6);
  small.capacity = TokenBlocks{50};
  CHECK(last_of<E>(requests, cost, 50, {small}).loaded == Tokens{0});
  CHECK(last_of<E>(requests, cost, 50, {small, ssd(1e6)}).loaded == Tokens{480});
  // HiCache goes on with what has arrived after 1 s and 0.25 s for 1,024 tokens.
  using H = Tried<HiCache>;
  const RequestRecord part = last_of<H>(requests, cost, 50, {ssd(bytes / 2)});
  const double patience_s = 1 + 0.25 * 480 / 1024;
  CHECK(part.loaded.count() == static_cast<std::int64_t>(30 * (patience_s - 0.05) / 2) * 16);
  CHECK(part.ttft().count() > patience_s);
  CHECK(last_of<H>(requests, cost, 50, {ssd(1e9)}).loaded == Tokens{480});
}

TEST_CASE("IfFaster fetches from a fast SSD, and computes where the SSD or the pool's channel is slow") {
  const std::vector<KeyedRequest> requests = again_after_others(480, 8);
  const SmallCost cost = with_rate(1e9);
  const double bytes = 30.0 * layers * 4096;
  const auto check = [&]<class E>(std::type_identity<E>) {
    const auto last = [&](double seconds) {
      const Tier ssd{.capacity = TokenBlocks{1000}, .read_rate = BytesPerSecond{bytes / seconds}};
      return last_of<E>(requests, cost, 50, {ssd});
    };
    const RequestRecord miss = last_of<E>(requests, cost, 50), fast = last(1e-4), slow = last(0.5);
    CHECK(fast.loaded == Tokens{480});
    CHECK(fast.fetched == 480);
    CHECK(fast.ttft() < miss.ttft());
    CHECK(slow.loaded == Tokens{0});
    CHECK(slow.ttft() == miss.ttft());
    auto pool = config_of<E>(40, 1000, cost);
    pool.tier.read_rate = BytesPerSecond{bytes / 0.5};
    E engine = engine_of<E>(pool);
    CHECK(run(engine, requests).back().ttft() == miss.ttft());
  };
  check(std::type_identity<Tried<HiCacheIfFaster>>{});
  check(std::type_identity<Tried<AdaptiveOffload>>{});
}

TEST_CASE("a fetch brings the host the fetched blocks, and no block that only the device has") {
  // The host and the device lose a topic. Then the device gets its beginning again.
  using E = Tried<With<VllmPrefixCaching, OnceOffloaded>>;
  std::vector<KeyedRequest> requests = again_after_others(480, 8);
  requests.back().spec.arrival = Seconds{1100};
  requests.insert(requests.end() - 1, request(OnceOffloaded::apart.count(), 90, 1, 160, 20));
  const std::vector<BlockKey>& topic = requests.back().keys;
  E engine = engine_of<E>(40, 50, with_rate(1e9), {{.capacity = TokenBlocks{1000}}});
  const RequestRecord last = run(engine, requests).back();
  CHECK(last.found == Tokens{480});
  const std::int64_t device = 160 / 16;
  CHECK(last.loaded == Tokens{(30 - device) * 16});
  for (std::size_t i = 0; i < 30; ++i) CHECK(engine.tiers().store().holds(topic[i]) == (i >= device));
}

TEST_CASE("a first tier with a slow channel of its own: loads within an iteration and write-back take its time") {
  const std::vector<KeyedRequest> requests = again_after_others(480);
  const double bytes = 30.0 * layers * 4096, rate = 2e5;
  const auto last = [&]<class E>(std::type_identity<E>, double channel) {
    auto config = config_of<E>(40, 1000, with_rate(1e9));
    config.tier.read_rate = config.tier.write_rate = BytesPerSecond{channel};
    config.tier.latency = Seconds{0.01};
    E engine = engine_of<E>(config);
    return run(engine, requests).back();
  };
  const auto check = [&]<class E>(std::type_identity<E> system, std::int64_t tokens) {
    const RequestRecord slow = last(system, rate), fast = last(system, 1e12);
    CHECK(slow.loaded == Tokens{tokens});
    CHECK(fast.loaded == Tokens{tokens});
    const double load_s = 0.01 + bytes * static_cast<double>(tokens) / 480 / rate;
    CHECK(fast.ttft().count() < load_s / 4);
    CHECK(slow.ttft().count() > 0.99 * load_s);
    CHECK(slow.ttft().count() < load_s + 4 * fast.ttft().count());
  };
  check(std::type_identity<Tried<HiCache>>{}, 480);
  check(std::type_identity<Tried<HiCacheBack>>{}, 480);
  check(std::type_identity<Tried<Lmcache>>{}, 256);
}

TEST_CASE("blocks that the device overwrites can be found when the tier's channel has taken them") {
  std::vector<KeyedRequest> requests = again_after_others(480);
  using E = Tried<HiCacheBack>;
  for (const double channel : {1e12, 1e2}) { // 164 s a block
    auto config = config_of<E>(40, 1000, with_rate(1e9));
    config.tier.write_rate = BytesPerSecond{channel};
    E engine = engine_of<E>(config);
    CHECK((run(engine, requests).back().loaded == Tokens{480}) == (channel > 1e6));
  }
}

TEST_CASE("tiers that cannot be: one line says which one and why") {
  using E = Tried<MooncakeStore>;
  const auto wrong = [](const Tier& tier) {
    const Expected<E> engine = E::make(config_of<E>(40, 10, {}, {{.capacity = TokenBlocks{1}}, tier}));
    return engine ? std::string{} : engine.error().line();
  };
  CHECK(wrong({.capacity = TokenBlocks{4}}).empty());
  CHECK(wrong({.capacity = TokenBlocks{-4}}) ==
        "engine configuration: tier 3 has a negative capacity; expected at least 0 blocks");
  CHECK(wrong({.read_rate = BytesPerSecond{0}}) ==
        "engine configuration: tier 3 has a rate that moves nothing, or a negative latency; expected positive rates, "
        "and a latency of at least 0 s");
  // It would take the order of evictions for that of a request, so that blocks left before those that follow them.
  CHECK(wrong({.replacement = Replacement::least_worth}) ==
        "engine configuration: tier 3 gets evicted blocks, and evicts by worth, which evicted blocks do not have; "
        "expected another Replacement");
}

TEST_CASE("a first tier that evicts in another order than its policy needs is refused") {
  using E = Tried<CachedAttention>;
  auto config = config_of<E>(40, 10);
  CHECK(E::make(config));
  config.tier.replacement = Replacement::least_recent;
  const Expected<E> engine = E::make(config);
  REQUIRE_FALSE(engine);
  CHECK(engine.error().line() == "engine configuration: tier 1 evicts by LRU, and its Caching policy by worth; "
                                 "expected the Replacement of the policy's first_tier()");
}

TEST_CASE("which blocks a lower tier gets: all, those used again, those that the host evicts") {
  std::vector<KeyedRequest> requests = again_after_others(480, 8);
  const Tier large{.capacity = TokenBlocks{1000}};
  const auto different = [&] {
    std::set<BlockKey> keys;
    for (const KeyedRequest& one : requests) keys.insert(one.keys.begin(), one.keys.end());
    return keys;
  }();
  const auto check = [&]<class E>(std::type_identity<E>, std::int64_t host, auto&& expected) {
    E engine = engine_of<E>(40, host, with_rate(1e9), {large});
    std::vector<KeyedRequest> all = requests;
    all.push_back(request(2000, 99, 99, 1, 1)); // by then all has arrived
    run(engine, all);
    const TierStore& first = engine.tiers().store();
    const TierStore& second = engine.tiers().level(1).store;
    for (const BlockKey key : different) CHECK(second.holds(key) == expected(key, first));
  };
  const auto all = [](BlockKey, const TierStore&) { return true; };
  check(std::type_identity<Tried<HiCache>>{}, 50, all);
  // The topic's blocks are in both, since the last request has fetched them again.
  const auto topic = request(0, 0, 1, 480, 0).keys;
  const auto evicted = [&](BlockKey key, const TierStore& first) {
    return !first.holds(key) || std::find(topic.begin(), topic.end(), key) != topic.end();
  };
  check(std::type_identity<Tried<MooncakeStore>>{}, 50, evicted);
  const auto again = [&](BlockKey key, const TierStore&) {
    return std::find(topic.begin(), topic.end(), key) != topic.end();
  };
  check(std::type_identity<Tried<Kvbm>>{}, 1000, again);
}

TEST_CASE("of blocks that leave the memory above, those that left first leave a tier first") {
  const std::vector<BlockKey> keys = request(0, 0, 1, 160, 0).keys, other = request(0, 1, 2, 16, 0).keys;
  Tiers host({{.capacity = TokenBlocks{10}}, {}, false}, Bytes{1}, Feed::written);
  std::vector<BlockKey> evicted(keys.rbegin(), keys.rend()); // the device evicts the end of a request first
  CHECK(host.write_back(evicted, Seconds{0}) == 10);
  CHECK(host.find(keys).first == 10);
  host.write_back(other, Seconds{1});
  CHECK(host.find(keys).first == 9);

  // Two tiers, of which one evicts into the other, and the same block by block.
  for (const Replacement rule : {Replacement::least_recent, Replacement::least_frequent, Replacement::adaptive}) {
    CAPTURE(name(rule));
    for (const std::int64_t capacity : {5, 40}) {
      const Tier first{.capacity = TokenBlocks{30}}, second{.capacity = TokenBlocks{capacity}, .replacement = rule};
      Tiers tiers({first, {second}, false}, Bytes{1}, Feed::evicted);
      TierStore above(first.capacity, first.replacement), below(second.capacity, rule);
      Random random(7);
      for (int i = 0; i < 200; ++i) {
        const auto topic = 1 + random.below(6);
        const auto tokens = static_cast<std::int64_t>(16 * (1 + random.below(25)));
        const std::vector<BlockKey> of = request(0, 0, topic, tokens, 0).keys;
        tiers.write(of, 0, 0, Seconds{0});
        (void)tiers.launch();
        tiers.crossed(0, Seconds{0});
        above.store(of, [&below](BlockKey key) { (void)below.store_one(key, true); });
        for (std::uint64_t each = 1; each <= 6; ++each)
          for (const BlockKey key : request(0, 0, each, 400, 0).keys) {
            REQUIRE(tiers.store().holds(key) == above.holds(key));
            REQUIRE(tiers.level(1).store.holds(key) == below.holds(key));
          }
      }
    }
  }
}

TEST_CASE("loads of one iteration follow one another on the tier's channel") {
  const Tier slow{.capacity = TokenBlocks{100}, .read_rate = BytesPerSecond{100}};
  Tiers tiers({slow, {}, false}, Bytes{1}, Feed::written);
  tiers.pass_idle(1000, Seconds{0}); // the link moves ten times as much
  for (const double now : {0.0, 5.0}) {
    double sum = 0;
    for (int load = 1; load <= 4; ++load) sum += tiers.load_within(10, Seconds{now});
    CHECK(sum == doctest::Approx(400));
  }
}

TEST_CASE("HiCache with write-back writes what the device overwrites, and the iteration waits for it") {
  const std::vector<KeyedRequest> requests = again_after_others(480);
  using E = Tried<HiCacheBack>;
  E ample = engine_of<E>(1000, 1000);
  run(ample, requests);
  CHECK(ample.observed<Summary>().to_host == LayerBlocks{0});
  CHECK(ample.tiers().store().size() == 0);
  E small = engine_of<E>(40, 1000, with_rate(1e9));
  const RequestRecord back = run(small, requests).back();
  CHECK(back.loaded == Tokens{480});
  const auto moved = [&](const auto& engine) { return engine.template observed<Summary>().to_host; };
  CHECK(moved(small) == across_layers(TokenBlocks{static_cast<std::int64_t>(small.tiers().store().size())}, layers));
  using Through = Tried<HiCache>;
  Through through = engine_of<Through>(40, 1000, with_rate(1e9));
  run(through, requests);
  CHECK(moved(small) <= moved(through)); // what is still on the device at the end is not written
}

TEST_CASE("a request is not refused for room that others' shared blocks took") {
  using E = Tried<VllmPrefixCaching>;
  E engine = engine_of<E>(60, 0);
  std::vector<KeyedRequest> requests{request(0, 0, 1, 480, 20), request(0.1, 1, 1, 480, 20),
                                     request(0.3, 2, 2, 600, 100)};
  requests[1].spec.output = Tokens{100}; // it still has the blocks that the first one took
  CHECK(run(engine, requests).back().outcome == Outcome::served);
}

TEST_CASE(
    "a pinned session finds its KV although others fill the device; a pin ends, and running requests come first") {
  // A session's first turn; then others, of which all together would overwrite it; then its second turn.
  const auto requests = [](double gap, std::int64_t own_output) {
    std::vector<KeyedRequest> all{request(0, 0, 1, 300, 20)};
    all.front().spec.session = 1;
    for (std::uint64_t i = 1; i <= 8; ++i) {
      all.push_back(request(0.1 + 0.02 * static_cast<double>(i), i, 1 + i, 200, 20));
      all.back().spec.output = Tokens{own_output};
    }
    all.push_back(request(gap, 9, 1, 300, 60));
    all.back().spec.session = 1;
    all.back().spec.turn = 1;
    return all;
  };
  const auto last = [&]<class E>(std::type_identity<E>, double gap, std::int64_t device, std::int64_t output) {
    E engine = engine_of<E>(device, 0);
    const RequestRecord record = run(engine, requests(gap, output)).back();
    CHECK(record.outcome == Outcome::served);
    return record.found;
  };
  using Pinned = std::type_identity<Tried<Continuum>>;
  const Tokens first{288}; // whole blocks of its 300 tokens
  CHECK(last(Pinned{}, 1.5, 60, 2) == first);
  CHECK(last(std::type_identity<Tried<VllmPrefixCaching>>{}, 1.5, 60, 2) == Tokens{0});
  // Later than 2 s after its answer its blocks are free, and newcomers overwrite them.
  std::vector<KeyedRequest> late = requests(8, 2);
  for (std::uint64_t i = 20; i < 28; ++i)
    late.insert(late.end() - 1, request(4 + 0.02 * static_cast<double>(i), i, i, 200, 20));
  Tried<Continuum> engine = engine_of<Tried<Continuum>>(60, 0);
  CHECK(run(engine, late).back().found == Tokens{0});
  CHECK(engine.pinned().count() > 0); // of the second turn
  // Where running requests grow beyond the rest of the device, the pin is given up, and nobody is preempted for it.
  CHECK(last(Pinned{}, 1.5, 45, 300) == Tokens{0});
}

TEST_CASE("InferCept pins until preserving has wasted as much as to swap or to compute again, whichever is less") {
  Tried<InferCept> engine = engine_of<Tried<InferCept>>(60, 100);
  RequestRow row;
  row.computed = Tokens{480};
  const double compute_s = layers * (0.001 + 480e-5) + 0.002;
  for (const double rate : {1e5, 1e9}) {
    CAPTURE(rate);
    const double swap_s = 2 * 30 * layers * 4096 / rate;
    const Seconds pinned = LeastWaste{}.worth(engine.view(), row, with_rate(rate)).pinned;
    CHECK(pinned.count() == doctest::Approx(std::min(swap_s, compute_s)));
  }
}

TEST_CASE("CachedAttention fetches from the disk while a request waits, and evicts last what it needs") {
  const auto last = [](std::vector<KeyedRequest> requests, auto&& config) {
    const auto ran = [&]<class E>(std::type_identity<E>) {
      E engine = engine_of<E>(config(std::type_identity<E>{}));
      return run(engine, requests).back();
    };
    return std::pair{ran(std::type_identity<Tried<CachedAttention>>{}),
                     ran(std::type_identity<Tried<With<VllmPrefixCaching, BlindToQueue>>>{})};
  };
  // The host and the device have lost a topic. A long prompt is computed before the topic's turn.
  std::vector<KeyedRequest> requests = again_after_others(480, 16);
  requests.back().spec.arrival = Seconds{2000};
  requests.insert(requests.end() - 1, request(1999.999, 90, 90, 1900, 20));
  const double fetch_s = 0.1;
  const auto [ahead, late] = last(requests, [&]<class E>(std::type_identity<E>) {
    const Tier disk{.capacity = TokenBlocks{1000}, .read_rate = BytesPerSecond{30.0 * layers * 4096 / fetch_s}};
    return config_of<E>(200, 50, with_rate(1e9), {disk});
  });
  CHECK(ahead.loaded == Tokens{480});
  CHECK(late.loaded == Tokens{480});
  CHECK(ahead.fetched == 480);
  CHECK(late.fetched == 480);
  CHECK(late.ttft().count() - ahead.ttft().count() > 0.7 * fetch_s);
  // The host has the topic. What a long prompt writes meanwhile takes the place of others.
  requests = again_after_others(480, 2);
  requests.insert(requests.end() - 1, request(999.999, 90, 90, 480, 20));
  const auto [kept, evicted] =
      last(requests, []<class E>(std::type_identity<E>) { return config_of<E>(40, 75, with_rate(1e9)); });
  CHECK(kept.loaded == Tokens{480});
  CHECK(evicted.loaded < Tokens{100});
}

TEST_CASE("a request that shares the beginning of another one's fetch fetches the rest itself") {
  const auto branch = [](double arrival, std::uint64_t number, std::uint64_t topic) {
    KeyedRequest made{{Seconds{arrival}, Tokens{500}, Tokens{2}, {}}, {}};
    const ContentPiece pieces[] = {{1, Tokens{160}}, {topic, Tokens{320}}, {1000 + number, Tokens{20}}};
    block_keys(pieces, Tokens{16}, made.keys);
    return made;
  };
  std::vector<KeyedRequest> requests{branch(0, 20, 500), branch(10, 21, 501)};
  for (std::uint64_t i = 1; i <= 8; ++i)
    requests.push_back(request(80.0 * static_cast<double>(i), i, 1 + i, 300, 20)); // the device and the host forget
  requests.push_back(branch(1000, 22, 500));
  requests.push_back(branch(1000, 23, 501));
  const Tier ssd{.capacity = TokenBlocks{1000}, .read_rate = BytesPerSecond{1e6}};
  const auto check = [&]<class E>(std::type_identity<E>) {
    E engine = engine_of<E>(70, 70, with_rate(1e9), {ssd});
    const std::vector<RequestRecord> records = run(engine, requests);
    std::int64_t fetched = 0;
    for (std::size_t i = requests.size() - 2; i < requests.size(); ++i) {
      CHECK(records[i].found == Tokens{480});
      fetched += records[i].fetched;
    }
    CHECK(fetched >= 480 + 320); // one of them may find the beginning on the device
    CHECK(engine.tiers().level(1).read_blocks == 30 + 20);
  };
  check(std::type_identity<Tried<VllmOffload>>{});
  check(std::type_identity<Tried<CachedAttention>>{});
}

TEST_CASE("each request that waits for a fetch has patience of its own, and the fetch goes on while one has") {
  const std::vector<BlockKey> keys = request(0, 0, 1, 160, 0).keys;
  const std::vector<BlockKey> shared(keys.begin(), keys.begin() + 5);
  const Tier ssd{.capacity = TokenBlocks{100}, .read_rate = BytesPerSecond{1}}; // a block a second
  struct Woken {
    RequestId id{};
    std::size_t blocks = 0;
    bool all = false;
  };
  for (const bool patient_first : {true, false}) {
    Tiers tiers({{.capacity = TokenBlocks{10}}, {ssd}, false}, Bytes{1}, Feed::written);
    tiers.write(keys, 0, 0, Seconds{0});
    (void)tiers.launch();
    tiers.crossed(0, Seconds{0});
    tiers.write_back(request(0, 0, 2, 160, 0).keys, Seconds{0}); // the host forgets the others
    REQUIRE(tiers.find(keys).first == 0);
    REQUIRE(tiers.find(keys).lower == 10);
    const Tiers::Waiter patient{Slot{0}, RequestId{0}}, other{Slot{1}, RequestId{1}, true, Seconds{3}};
    if (patient_first) {
      tiers.fetch(patient, keys, 0, 0, Seconds{0});
      CHECK(tiers.join_fetch(shared, 0, other) == 5);
    } else {
      tiers.fetch(other, keys, 0, 0, Seconds{0});
      CHECK(tiers.join_fetch(keys, 0, patient) == 10);
    }
    std::vector<Woken> woken;
    const auto wake = [&](const Tiers::Waiter& waiter, const Tiers::Brought& brought) {
      woken.push_back(
          {waiter.id, brought.of(waiter.id == other.id ? std::span<const BlockKey>(shared) : keys), brought.all});
    };
    CHECK(tiers.next_end() == Seconds{3});
    tiers.arrive_by(Seconds{3}, wake);
    REQUIRE(woken.size() == 1);
    CHECK(woken[0].id == other.id);
    CHECK(woken[0].blocks == 3);
    CHECK_FALSE(woken[0].all);
    CHECK(tiers.find(keys).first == 3);
    CHECK(tiers.next_end() == Seconds{10});
    tiers.arrive_by(Seconds{10}, wake);
    REQUIRE(woken.size() == 2);
    CHECK(woken[1].id == patient.id);
    CHECK(woken[1].blocks == 10);
    CHECK(woken[1].all);
    CHECK(tiers.find(keys).first == 10);
  }
}

TEST_CASE("blocks are worth what the requests that wait for them say, and nothing once none waits") {
  const std::vector<BlockKey> keys = request(0, 0, 1, 160, 0).keys, others = request(0, 1, 2, 160, 0).keys;
  const std::vector<BlockKey> shared(keys.begin(), keys.begin() + 5);
  const Slot first{0}, second{1};
  const auto store = [](Tiers& tiers, const std::vector<BlockKey>& of) {
    tiers.write(of, 0, 0, Seconds{0});
    (void)tiers.launch();
    tiers.crossed(0, Seconds{0});
  };
  const auto kept = [&](auto&& happens) {
    Tiers tiers({{.capacity = TokenBlocks{10}, .replacement = Replacement::least_worth}, {}, false}, Bytes{1},
                Feed::written);
    happens(tiers);
    store(tiers, others);
    return tiers.find(keys).first;
  };
  CHECK(kept([&](Tiers& tiers) { store(tiers, keys); }) == 0);
  CHECK(kept([&](Tiers& tiers) {
          store(tiers, keys);
          tiers.want(first, keys, 0.5);
        }) == 10);
  CHECK(kept([&](Tiers& tiers) { // it is cancelled
          store(tiers, keys);
          tiers.want(first, keys, 0.5);
          tiers.leave(first);
        }) == 0);
  for (const double worth : {0.1, 0.9})
    CHECK(kept([&](Tiers& tiers) { // one joins, and another one with the same beginning waits
            store(tiers, keys);
            tiers.want(first, keys, 0.5);
            tiers.want(second, shared, worth);
            tiers.join(first, keys, 0);
          }) == 5);
  CHECK(kept([&](Tiers& tiers) { // they are on the link when it arrives
          tiers.write(keys, 0, 0, Seconds{0});
          (void)tiers.launch();
          tiers.want(first, keys, 0.5);
          tiers.crossed(0, Seconds{0});
        }) == 10);
}

TEST_CASE("a cancelled request's blocks leave CachedAttention's host like any others") {
  using E = Tried<CachedAttention>;
  E engine = engine_of<E>(40, 75, with_rate(1e9));
  const std::vector<BlockKey> topic = request(0, 0, 1, 480, 0).keys;
  const auto serve = [&](const KeyedRequest& one) {
    engine.idle_until(one.spec.arrival);
    REQUIRE(engine.submit(one.spec, one.keys));
    while (engine.step() == Stepped::ran) continue;
  };
  serve(request(0, 0, 1, 480, 20));
  serve(request(50, 1, 2, 16, 0)); // by then the topic has crossed
  REQUIRE(engine.tiers().store().find(topic) == 30);
  engine.idle_until(Seconds{100});
  const KeyedRequest again = request(100, 2, 1, 480, 20);
  const Expected<RequestId> id = engine.submit(again.spec, again.keys);
  REQUIRE(id);
  REQUIRE(engine.cancel(*id));
  for (std::uint64_t i = 3; i < 9; ++i) serve(request(100.0 * static_cast<double>(i), i, i, 300, 20));
  CHECK(engine.tiers().store().find(topic) == 0);
}

TEST_CASE("sessions on little memory: nothing is lost, and a later turn finds what the tier has") {
  std::int64_t loaded = 0;
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    Random random(seed);
    const auto check = [&]<class E>(std::type_identity<E>) {
      const auto text = "sessions:rate=2,sessions=12,turns=uniform(1,5),systems=2,system=40,first=uniform(50,200),"
                        "growth=uniform(20,90),output=uniform(1,40),user=lognormal(2,1),longest=600";
      // Drawn one after the other: compilers evaluate arguments in different orders.
      const auto device = static_cast<std::int64_t>(45 + random.below(60));
      const auto host = static_cast<std::int64_t>(random.below(300));
      const double rate = 1e5 * std::pow(10, random.below(3));
      E engine = engine_of<E>(device, host, with_rate(rate), lower_tiers(random));
      SessionGenerator sessions{*parse_sessions(text), seed}, again{*parse_sessions(text), seed};
      const std::vector<RequestSpec> all = *read_all(sessions);
      REQUIRE(simulate(engine, again));
      const auto& records = engine.template observed<Summary>().requests;
      REQUIRE(records.size() == all.size());
      for (const RequestRecord& record : records) {
        CHECK(record.outcome == Outcome::served);
        CHECK(record.delivered == record.output);
        CHECK(record.loaded <= record.found);
        CHECK(record.found < record.prompt);
        loaded += record.loaded.count();
      }
      check_capacity(engine);
      CHECK(engine.ledger().device().used() == engine.pinned());
    };
    check(std::type_identity<Tried<HiCache>>{});
    check(std::type_identity<Tried<Lmcache>>{});
    check(std::type_identity<Tried<HiCacheIfFaster>>{});
    check(std::type_identity<Tried<HiCacheWithinSlos>>{});
    check(std::type_identity<Tried<With<HiCacheWithinSlos, OneStepAhead>>>{});
    check(std::type_identity<Tried<With<HiCache, OneStepAhead>>>{});
    check(std::type_identity<Tried<VllmOffload>>{});
    check(std::type_identity<Tried<HiCacheBack>>{});
    check(std::type_identity<Tried<Kvbm>>{});
    check(std::type_identity<Tried<MooncakeStore>>{});
    check(std::type_identity<Tried<Cake>>{});
    check(std::type_identity<Tried<CachedAttention>>{});
    check(std::type_identity<Tried<AdaptiveOffload>>{});
    check(std::type_identity<Tried<Continuum>>{});
    check(std::type_identity<Tried<InferCept>>{});
    check(std::type_identity<Tried<With<VllmOffload, OneStepAhead>>>{});
    check(std::type_identity<Tried<With<Cake, OneStepAhead>>>{});
  }
  CHECK(loaded > 1000);
}

} // namespace sluice::testing::tiers
