// SPDX-License-Identifier: Apache-2.0
// Caching: KV that outlives its request in host memory: what it saves, what it moves, and what it never does.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/workload/session_spec.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <type_traits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr int layers = 4;

template <class E>
using Tried = With<E, SmallCost, BasicSimulated<SmallCost>, Summary>;

/// A small engine with `device` and `host` token blocks.
template <class E>
E engine_of(std::int64_t device, std::int64_t host, const SmallCost& cost = {}) {
  Expected<E> engine = E::make({.limits = {.batch = 64, .batch_tokens = Tokens{256}, .max_context = Tokens{2048}},
                                .geometry = {layers, Bytes{4096}, Bytes{1 << 20}},
                                .device_blocks = LayerBlocks{device * layers},
                                .tier = {.capacity = TokenBlocks{host}},
                                .cost = cost,
                                .backend = BasicSimulated<SmallCost>{cost}});
  REQUIRE(engine);
  return *std::move(engine);
}

/// A request whose prompt has `shared` tokens of topic `topic` and then its own.
KeyedRequest request(double arrival, std::uint64_t number, std::uint64_t topic, std::int64_t shared, std::int64_t own) {
  KeyedRequest made{{Seconds{arrival}, Tokens{shared + own}, Tokens{2}, {}}, {}};
  const ContentPiece pieces[] = {{topic, Tokens{shared}}, {1000 + number, Tokens{own}}};
  block_keys(pieces, Tokens{16}, made.keys);
  return made;
}

/// Submits requests at their arrivals and runs to the end; after each step nothing exceeds its capacity.
template <class E>
const std::vector<RequestRecord>& run(E& engine, const std::vector<KeyedRequest>& requests) {
  std::size_t next = 0;
  for (;;) {
    for (; next < requests.size() && requests[next].spec.arrival <= engine.now(); ++next)
      REQUIRE(engine.submit(requests[next].spec, requests[next].keys));
    const Stepped stepped = engine.step();
    REQUIRE(stepped != Stepped::failed);
    CHECK(engine.tier().store().size() <= engine.tier().store().capacity());
    CHECK(engine.ledger().device().used() <= engine.ledger().device().capacity());
    if (stepped == Stepped::ran) continue;
    if (next == requests.size()) break;
    engine.idle_until(requests[next].spec.arrival);
  }
  CHECK(engine.alive() == 0);
  CHECK(engine.ledger().device().used() == LayerBlocks{0});
  return engine.template observed<Summary>().requests;
}

/// A request of a topic, others of 20 blocks each that overwrite a small device, and the topic again.
std::vector<KeyedRequest> again_after_others(std::int64_t shared, std::uint64_t others = 4) {
  std::vector<KeyedRequest> requests{request(0, 0, 1, shared, 20)};
  for (std::uint64_t i = 1; i <= others; ++i)
    requests.push_back(request(80.0 * static_cast<double>(i), i, 1 + i, 300, 20));
  requests.push_back(request(1000, 9, 1, shared, 20));
  return requests;
}

SmallCost with_rate(double bytes_per_s) {
  SmallCost cost;
  cost.rate = BytesPerSecond{bytes_per_s};
  return cost;
}

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
    const auto last = [&]<class E>(std::type_identity<E>) {
      E engine = engine_of<E>(40, 1000, cost);
      return run(engine, requests).back();
    };
    const RequestRecord layerwise = last(std::type_identity<Tried<HiCache>>{});
    const RequestRecord if_faster = last(std::type_identity<Tried<HiCacheIfFaster>>{});
    const RequestRecord whole = last(std::type_identity<Tried<Lmcache>>{});
    CHECK(layerwise.loaded == Tokens{480});
    CHECK(whole.loaded == Tokens{256}); // whole chunks
    CHECK(layerwise.found == layerwise.loaded);
    if (rate > 1e10) { // except for the fixed time of each transfer
      CHECK(layerwise.ttft().count() == doctest::Approx(hit.ttft().count()).epsilon(0.01));
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
    CHECK(engine.tier().store().size() == different.size());
    for (const BlockKey key : different) CHECK(engine.tier().store().holds(key));
  };
  check(std::type_identity<Tried<HiCache>>{});
  check(std::type_identity<Tried<With<HiCache, BasicWriteThrough<Writes::waited>>>>{});
  check(std::type_identity<Tried<With<HiCache, OneStepAhead>>>{});
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

TEST_CASE("sessions on little memory: nothing is lost, and a later turn finds what the tier has") {
  std::int64_t loaded = 0;
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    Random random(seed);
    const auto check = [&]<class E>(std::type_identity<E>) {
      const auto text = "sessions:rate=2,sessions=12,turns=uniform(1,5),systems=2,system=40,first=uniform(50,200),"
                        "growth=uniform(20,90),output=uniform(1,40),user=lognormal(2,1),longest=600";
      E engine =
          engine_of<E>(static_cast<std::int64_t>(45 + random.below(60)), static_cast<std::int64_t>(random.below(300)),
                       with_rate(1e5 * std::pow(10, random.below(3))));
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
      CHECK(engine.tier().store().size() <= engine.tier().store().capacity());
      CHECK(engine.ledger().device().used() == LayerBlocks{0});
    };
    check(std::type_identity<Tried<HiCache>>{});
    check(std::type_identity<Tried<Lmcache>>{});
    check(std::type_identity<Tried<HiCacheIfFaster>>{});
    check(std::type_identity<Tried<With<HiCache, OneStepAhead>>>{});
  }
  CHECK(loaded > 1000);
}
