// SPDX-License-Identifier: Apache-2.0
// One host memory for offloaded layers of running requests and for prefixes of ended ones.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/workload/session_generator.hpp"

#include "engine/small_tiers.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace sluice::testing::tiers {

namespace {

/// What both take of the host after each step.
struct HostUse {
  std::int64_t most_layers = 0; ///< of live requests, layer blocks
  std::int64_t most_cached = 0; ///< token blocks
  std::int64_t gave_way = 0;    ///< token blocks that left the tier while live requests took room
  std::int64_t stopped = 0;     ///< requests that were preempted before their loads had ended
};

/// `look` is called after each step.
template <class E, class Look>
HostUse run_shared(E& engine, const std::vector<KeyedRequest>& requests, Look&& look) {
  HostUse use;
  std::int64_t used = 0, cached = 0;
  for (std::size_t next = 0;;) {
    for (; next < requests.size() && requests[next].spec.arrival <= engine.now(); ++next)
      REQUIRE(engine.submit(requests[next].spec, requests[next].keys));
    std::vector<RequestId> load;
    for (const RequestRow& row : engine.view().rows)
      if (row.phase == Phase::running && row.waits) load.push_back(row.id);
    const Stepped stepped = engine.step();
    REQUIRE(stepped != Stepped::failed);
    for (const RequestRow& row : engine.view().rows)
      if (row.phase == Phase::preempted) use.stopped += std::count(load.begin(), load.end(), row.id);
    look();
    const Account& host = engine.ledger().host();
    const auto has = static_cast<std::int64_t>(engine.tiers().store().size());
    CHECK(host.used() + across_layers(TokenBlocks{has}, layers) <= host.capacity());
    if (host.used().count() > used && has < cached) use.gave_way += cached - has;
    used = host.used().count();
    cached = has;
    use.most_layers = std::max(use.most_layers, used);
    use.most_cached = std::max(use.most_cached, cached);
    if (stepped == Stepped::ran) continue;
    const Seconds arrival = next < requests.size() ? requests[next].spec.arrival : never_due;
    const Seconds until = std::min(arrival, engine.next_load());
    if (until == never_due) break;
    engine.idle_until(until);
  }
  CHECK(engine.alive() == 0);
  CHECK(engine.ledger().device().used().count() == 0);
  CHECK(engine.ledger().host().used().count() == 0);
  return use;
}

template <class E>
HostUse run_shared(E& engine, const std::vector<KeyedRequest>& requests) {
  return run_shared(engine, requests, [] {});
}

/// Together longer than the device, so that layers are offloaded.
std::vector<KeyedRequest> crowd(double arrival, std::uint64_t first, int count) {
  std::vector<KeyedRequest> requests;
  for (int i = 0; i < count; ++i) {
    requests.push_back(request(arrival, first + static_cast<std::uint64_t>(i), 90, 16, 320));
    requests.back().spec.output = Tokens{60};
  }
  return requests;
}

} // namespace

TEST_CASE("a prefix of an ended request is loaded from the host under layers that a plan offloads") {
  for (const double rate : {1e15, 3e6}) {
    std::vector<KeyedRequest> requests{request(0, 1, 1, 480, 20)};
    for (const KeyedRequest& one : crowd(100, 10, 2)) requests.push_back(one);
    requests.push_back(request(100.2, 20, 1, 480, 20));
    using Cached = Tried<OrbitFlowCached>;
    Cached engine = engine_of<Cached>(60, 1000, with_rate(rate));
    const HostUse use = run_shared(engine, requests);
    const RequestRecord last = engine.observed<Summary>().requests.back();
    CHECK(last.loaded == Tokens{480});
    CHECK(last.outcome == Outcome::served);
    CHECK(use.most_layers > 0);
    CHECK(use.most_cached > 30);
  }
}

TEST_CASE("an engine that keeps nothing on the device and caches: a load over a fast link saves the computation") {
  const std::vector<KeyedRequest> requests{request(0, 1, 1, 480, 20), request(100, 2, 1, 480, 20)};
  using Cached = Tried<With<VllmRecompute, WriteThrough>>;
  using Plain = Tried<VllmRecompute>;
  Cached cached = engine_of<Cached>(100, 100, with_rate(1e15));
  Plain plain = engine_of<Plain>(100, 0, with_rate(1e15));
  const RequestRecord loaded = run(cached, requests).back(), computed = run(plain, requests).back();
  CHECK(loaded.found == Tokens{480});
  CHECK(loaded.loaded == Tokens{480});
  CHECK(loaded.ttft() < computed.ttft() * 0.6);
}

TEST_CASE("where nobody finds another request's blocks, each loads its own, and none waits for another's load") {
  const std::vector<KeyedRequest> requests{request(0, 1, 1, 480, 20), request(100, 2, 1, 480, 20),
                                           request(100, 3, 1, 480, 20), request(100, 4, 1, 480, 20)};
  const auto check = [&]<class E>(std::type_identity<E>) {
    auto config = config_of<E>(200, 200, with_rate(1e6));
    config.limits.batch_tokens = Tokens{2048}; // all may join at once
    E engine = engine_of<E>(config);
    const std::vector<RequestRecord>& records = run(engine, requests);
    REQUIRE(records.size() == 4);
    for (std::size_t i = 1; i < 4; ++i) CHECK(records[i].loaded == Tokens{480});
    return records[3].first - records[1].first;
  };
  CHECK(check(std::type_identity<Tried<With<VllmRecompute, WriteThrough>>>{}) == Seconds{0});
  CHECK(check(std::type_identity<Tried<With<VllmRecompute, VllmOffloadRule>>>{}) > Seconds{0}); // in order on the link
}

TEST_CASE("prefixes leave when offloaded layers need the host's memory, and never have more than those leave") {
  // Twelve topics fill the host; then a crowd offloads.
  std::vector<KeyedRequest> requests;
  for (std::uint64_t i = 0; i < 12; ++i) requests.push_back(request(20.0 * static_cast<double>(i), i, 1 + i, 320, 20));
  for (const KeyedRequest& one : crowd(1000, 30, 5)) requests.push_back(one);
  for (const Replacement rule :
       {Replacement::least_recent, Replacement::least_frequent, Replacement::adaptive, Replacement::least_worth}) {
    CAPTURE(name(rule));
    using Cached = Tried<OrbitFlowCached>;
    auto config = config_of<Cached>(50, 120, with_rate(1e8));
    config.tier.replacement = rule;
    Cached engine = engine_of<Cached>(config);
    const HostUse use = run_shared(engine, requests);
    CHECK(use.most_cached > 100);
    CHECK(use.most_layers > 0);
    CHECK(use.gave_way > 0);
  }
}

TEST_CASE("a request that is paused before its load has ended gives up the load, and runs again") {
  std::int64_t stopped = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    // A long prefix, which returns while a crowd with tight SLOs fills the device, over a slow link.
    Random random(seed);
    std::vector<KeyedRequest> requests{request(0, 1, 1, 480, 20), request(100, 2, 1, 480, 20)};
    const double crowd_at = 100 + 0.5 * random.uniform();
    for (std::uint64_t i = 0, count = 2 + random.below(6); i < count; ++i) {
      requests.push_back(request(crowd_at + 0.3 * static_cast<double>(i), 10 + i, 90, 16, 150));
      requests.back().spec.output = Tokens{static_cast<std::int64_t>(20 + random.below(60))};
      requests.back().spec.slo.tbt = Seconds{0.01 + 0.05 * random.uniform()};
    }
    const auto device = static_cast<std::int64_t>(40 + random.below(30));
    const auto host = static_cast<std::int64_t>(60 + random.below(200));
    const SmallCost cost = with_rate(1e5 * (1 + random.uniform()));
    using Ahead = Tried<With<OrbitFlowPool, VllmOffloadRule>>;
    Ahead ahead = engine_of<Ahead>(device, host, cost);
    stopped += run_shared(ahead, requests).stopped;
  }
  CHECK(stopped > 0);
}

TEST_CASE("a request that joins finds what it loads, although others take the host's memory in the same step") {
  // Topics fill the host. Then the oldest of those that it still has returns, and so does a crowd, which offloads.
  std::int64_t loads = 0, beside_offloading = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    std::vector<KeyedRequest> requests;
    for (std::uint64_t i = 0; i < 12; ++i)
      requests.push_back(request(20.0 * static_cast<double>(i), i, 1 + i, 320, 20));
    const auto host = static_cast<std::int64_t>(60 + random.below(120));
    const std::uint64_t oldest = 12 - static_cast<std::uint64_t>(host) / 21;
    for (const KeyedRequest& one : crowd(1000, 30, static_cast<int>(1 + random.below(5)))) requests.push_back(one);
    requests.push_back(request(1000 + 0.2 * random.uniform(), 50, 1 + oldest, 320, 20));
    const std::vector<BlockKey> keys = requests.back().keys;
    using Cached = Tried<OrbitFlowCached>;
    auto config = config_of<Cached>(50, host, with_rate(1e7));
    config.tier.replacement = static_cast<Replacement>(random.below(4));
    Cached engine = engine_of<Cached>(config);
    bool joined = false;
    const auto look = [&] {
      for (const RequestRow& row : engine.view().rows) {
        if (joined || row.phase != Phase::running || row.spec.arrival != requests.back().spec.arrival) continue;
        joined = true;
        const auto has = static_cast<std::int64_t>(engine.tiers().store().find(keys));
        CHECK(row.loaded <= Tokens{16 * has});
        loads += row.loaded.count() > 0 ? 1 : 0;
        beside_offloading += row.loaded.count() > 0 && engine.ledger().host().used().count() > 0 ? 1 : 0;
      }
    };
    (void)run_shared(engine, requests, look);
    CHECK(joined);
  }
  CHECK(loads > 10);
  CHECK(beside_offloading > 5);
}

TEST_CASE("sessions on a shared host: nothing is lost, and a later turn finds what the host has") {
  std::int64_t loaded = 0, refused = 0, plain_refused = 0, others_refused = 0;
  std::int64_t offloaded = 0, plain_offloaded = 0, others_offloaded = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const auto text = "sessions:rate=2,sessions=12,turns=uniform(1,5),systems=2,system=40,first=uniform(50,200),"
                      "growth=uniform(20,90),output=uniform(1,40),user=lognormal(2,1),longest=600";
    Random random(seed);
    const auto device = static_cast<std::int64_t>(45 + random.below(60));
    const auto host = static_cast<std::int64_t>(50 + random.below(300));
    const auto run_sessions = [&]<class E>(std::type_identity<E>, std::int64_t& count, std::int64_t& layers_away) {
      E engine = engine_of<E>(device, host, with_rate(1e6));
      SessionGenerator sessions{*parse_sessions(text), seed};
      REQUIRE(simulate(engine, sessions));
      CHECK(engine.ledger().device().used().count() == 0);
      CHECK(engine.ledger().host().used().count() == 0);
      layers_away += engine.ledger().host().peak().count();
      for (const RequestRecord& record : engine.template observed<Summary>().requests) {
        CHECK(record.outcome != Outcome::unfinished);
        if (record.outcome == Outcome::served) CHECK(record.delivered == record.output);
        CHECK(record.loaded <= record.found);
        loaded += record.loaded.count();
        count += record.outcome == Outcome::refused ? 1 : 0;
      }
    };
    run_sessions(std::type_identity<Tried<OrbitFlowCached>>{}, refused, offloaded);
    run_sessions(std::type_identity<Tried<OrbitFlowPool>>{}, plain_refused, plain_offloaded);
    // Requests join before their loads end, and may be paused meanwhile.
    using Ahead = Tried<With<OrbitFlowPool, VllmOffloadRule>>;
    using Beside = Tried<With<OrbitFlowPool, WithinSlos<HiCacheRule>>>;
    run_sessions(std::type_identity<Ahead>{}, others_refused, others_offloaded);
    run_sessions(std::type_identity<Beside>{}, others_refused, others_offloaded);
  }
  CHECK(refused <= plain_refused);
  CHECK(loaded > 1000);
  CHECK(offloaded > 0);
  CHECK(plain_offloaded > 0);
  CHECK(others_offloaded > 0);
}

TEST_CASE("a policy that writes nothing changes nothing: as without the role, to the bit") {
  std::vector<KeyedRequest> requests = crowd(0, 10, 6);
  for (const KeyedRequest& one : crowd(3, 30, 3)) requests.push_back(one);
  using Cached = Tried<With<OrbitFlowPool, PinSessions>>;
  using Plain = Tried<OrbitFlowPool>;
  Cached cached = engine_of<Cached>(60, 200, with_rate(3e6));
  typename Plain::Config config = config_of<Plain>(60, 200, with_rate(3e6));
  Plain plain = engine_of<Plain>(config);
  const std::vector<RequestRecord>& with = run(cached, requests);
  const std::vector<RequestRecord>& without = run(plain, requests);
  REQUIRE(with.size() == without.size());
  for (std::size_t i = 0; i < with.size(); ++i) {
    CHECK(with[i].first == without[i].first);
    CHECK(with[i].last == without[i].last);
  }
}

} // namespace sluice::testing::tiers
