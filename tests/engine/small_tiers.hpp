// SPDX-License-Identifier: Apache-2.0
// Small engines with tiers, and requests that share prefixes, for tests.
#pragma once

#include "sluice/engine/caching.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/with.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::testing::tiers {

constexpr int layers = 4;

template <class E, class... Observers>
using Tried = With<E, SmallCost, BasicSimulated<SmallCost>, Summary, Observers...>;

/// The first tier: host memory, or a pool behind a slow adapter.
template <class E>
Tier pool_of(std::int64_t blocks) {
  const Tier host{.capacity = TokenBlocks{blocks}};
  Tier tier = reached_by<typename E::caching_type>(host);
  if (tier.read_rate != host.read_rate) tier.read_rate = tier.write_rate = BytesPerSecond{2e5};
  return tier;
}

/// A small engine with `device` and `host` token blocks.
template <class E>
typename E::Config config_of(std::int64_t device, std::int64_t host, const SmallCost& cost = {},
                             std::vector<Tier> lower = {}) {
  return {.limits = {.batch = 64, .batch_tokens = Tokens{256}, .max_context = Tokens{2048}},
          .geometry = {layers, Bytes{4096}, Bytes{1 << 20}},
          .device_blocks = LayerBlocks{device * layers},
          .host_blocks = LayerBlocks{E::retention_type::finds_released ? 0 : host * layers},
          .tier = pool_of<E>(host),
          .cost = cost,
          .backend = BasicSimulated<SmallCost>{cost},
          .lower_tiers = std::move(lower)};
}
template <class E>
E engine_of(typename E::Config config) {
  Expected<E> engine = E::make(std::move(config));
  REQUIRE(engine);
  return *std::move(engine);
}
template <class E>
E engine_of(std::int64_t device, std::int64_t host, const SmallCost& cost = {}, std::vector<Tier> lower = {}) {
  return engine_of<E>(config_of<E>(device, host, cost, std::move(lower)));
}

/// A request whose prompt has `shared` tokens of topic `topic` and then its own.
inline KeyedRequest request(double arrival, std::uint64_t number, std::uint64_t topic, std::int64_t shared,
                            std::int64_t own) {
  KeyedRequest made{{Seconds{arrival}, Tokens{shared + own}, Tokens{2}, {}}, {}};
  const ContentPiece pieces[] = {{topic, Tokens{shared}}, {1000 + number, Tokens{own}}};
  block_keys(pieces, Tokens{16}, made.keys);
  return made;
}

/// No tier has more blocks than it may.
template <class E>
void check_capacity(const E& engine) {
  if constexpr (Caches<typename E::caching_type>)
    for (std::size_t i = 0; i < engine.tiers().count(); ++i) {
      const TierStore& store = engine.tiers().level(i).store;
      CHECK(store.size() <= store.capacity());
    }
}

/// Submits requests at their arrivals and runs to the end; after each step nothing exceeds its capacity.
template <class E>
const std::vector<RequestRecord>& run(E& engine, const std::vector<KeyedRequest>& requests) {
  for (std::size_t next = 0;;) {
    for (; next < requests.size() && requests[next].spec.arrival <= engine.now(); ++next)
      REQUIRE(engine.submit(requests[next].spec, requests[next].keys));
    const Stepped stepped = engine.step();
    REQUIRE(stepped != Stepped::failed);
    check_capacity(engine);
    CHECK(engine.ledger().device().used() <= engine.ledger().device().capacity());
    if (stepped == Stepped::ran) continue;
    const Seconds arrival = next < requests.size() ? requests[next].spec.arrival : never_due;
    const Seconds until = std::min(arrival, engine.next_load());
    if (until == never_due) break;
    engine.idle_until(until);
  }
  CHECK(engine.alive() == 0);
  CHECK(engine.ledger().device().used() == engine.pinned());
  return engine.template observed<Summary>().requests;
}

/// A request of a topic, others of 20 blocks each that overwrite a small device, and the topic again.
inline std::vector<KeyedRequest> again_after_others(std::int64_t shared, std::uint64_t others = 4) {
  std::vector<KeyedRequest> requests{request(0, 0, 1, shared, 20)};
  for (std::uint64_t i = 1; i <= others; ++i)
    requests.push_back(request(80.0 * static_cast<double>(i), i, 1 + i, 300, 20));
  requests.push_back(request(1000, 9, 1, shared, 20));
  return requests;
}

/// None, one or two tiers of any size and speed.
inline std::vector<Tier> lower_tiers(Random& random) {
  std::vector<Tier> tiers(random.below(3));
  for (Tier& tier : tiers) {
    tier.capacity = TokenBlocks{static_cast<std::int64_t>(random.below(400))};
    tier.replacement = static_cast<Replacement>(random.below(3)); // some systems' feeds exclude least_worth
    tier.read_rate = BytesPerSecond{1e5 * std::pow(10, random.below(4))};
    tier.write_rate = tier.read_rate * 0.5;
    tier.latency = Seconds{0.1 * random.uniform()};
  }
  return tiers;
}

inline SmallCost with_rate(double bytes_per_s) {
  SmallCost cost;
  cost.rate = BytesPerSecond{bytes_per_s};
  return cost;
}

/// The last of `requests`, served by `E`.
template <class E>
RequestRecord last_of(const std::vector<KeyedRequest>& requests, const SmallCost& cost, std::int64_t host = 1000,
                      std::vector<Tier> lower = {}) {
  E engine = engine_of<E>(40, host, cost, std::move(lower));
  return run(engine, requests).back();
}

} // namespace sluice::testing::tiers
