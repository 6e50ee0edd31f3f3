// SPDX-License-Identifier: Apache-2.0
// KeepUntilOverwritten: found blocks save work, change nothing else, and are stored once.
#include "sluice/core/random.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"
#include "sluice/report/observer/summary.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

using namespace sluice;

namespace {

using Plain = With<VllmRecompute, Summary>;
using Finding = With<VllmRecompute, KeepUntilOverwritten, Summary>;

template <class E>
E engine_of(std::int64_t token_blocks) {
  const ModelShape shape = llama3_8b();
  const Roofline gpu(shape, a5000());
  Limits limits;
  limits.batch = 64;
  limits.batch_tokens = Tokens{512};
  typename E::Config config{
      .limits = limits,
      .geometry = {shape.layers, shape.layer_block_bytes(Tokens{16}), shape.layer_weight_bytes()},
      .device_blocks = across_layers(TokenBlocks{token_blocks}, shape.layers),
      .cost = gpu,
      .backend = Simulated(gpu),
  };
  Expected<E> engine = E::make(std::move(config));
  REQUIRE(engine);
  return std::move(*engine);
}

struct Arrival {
  RequestSpec spec;
  std::vector<BlockKey> keys;
};

/// Requests whose prompts have one of a few common prefixes, or none if `alike` is false.
std::vector<Arrival> workload(std::uint64_t seed, int count, bool alike) {
  Random random(seed);
  std::vector<Arrival> arrivals;
  double now = 0.0;
  for (int i = 0; i < count; ++i) {
    now += random.uniform() * 0.2;
    Arrival arrival;
    arrival.spec.arrival = Seconds{now};
    arrival.spec.prompt = Tokens{random.below(300) + 1};
    arrival.spec.output = Tokens{random.below(200) + 1};
    const auto common = random.below(8);
    const auto topic = random.below(3);
    BlockKey key{};
    for (std::int64_t block = 0; block < arrival.spec.prompt.count() / 16; ++block) {
      const bool shared = alike && static_cast<std::uint64_t>(block) < common;
      key = next_key(key, shared ? topic : (std::uint64_t{1} << 40) + static_cast<std::uint64_t>(i));
      arrival.keys.push_back(key);
    }
    arrivals.push_back(std::move(arrival));
  }
  return arrivals;
}

struct Outcomes {
  std::vector<RequestRecord> requests;
  double end = 0.0;
  std::int64_t preempted = 0;
};

template <class E>
Outcomes run(std::int64_t token_blocks, const std::vector<Arrival>& arrivals) {
  E engine = engine_of<E>(token_blocks);
  const LayerBlocks memory = engine.ledger().device().capacity();
  for (std::size_t next = 0;;) {
    for (; next < arrivals.size() && arrivals[next].spec.arrival <= engine.now(); ++next) {
      REQUIRE(engine.submit(arrivals[next].spec, arrivals[next].keys));
    }
    if (engine.step() == Stepped::ran) {
      REQUIRE(engine.ledger().device().free() <= memory);
      continue;
    }
    if (next == arrivals.size()) break;
    engine.idle_until(arrivals[next].spec.arrival);
  }
  CHECK(engine.alive() == 0);
  CHECK(engine.ledger().device().free() == memory); // every block was returned, shared or not
  Outcomes outcomes{engine.template observed<Summary>().requests, engine.now().count(), 0};
  for (const RequestRecord& request : outcomes.requests) outcomes.preempted += request.times_preempted;
  return outcomes;
}

} // namespace

TEST_CASE("with memory for all requests and no common prefixes it equals Drop, to the last bit") {
  const std::vector<Arrival> arrivals = workload(1, 60, false);
  const Outcomes plain = run<Plain>(4000, arrivals);
  const Outcomes finding = run<Finding>(4000, arrivals);
  REQUIRE(plain.preempted == 0);
  REQUIRE(plain.requests.size() == finding.requests.size());
  for (std::size_t i = 0; i < plain.requests.size(); ++i) {
    CHECK(plain.requests[i].first == finding.requests[i].first);
    CHECK(plain.requests[i].last == finding.requests[i].last);
  }
}

TEST_CASE("under memory pressure all requests are served, in less time than with recomputation") {
  std::int64_t preempted = 0;
  double plain_s = 0.0;
  double finding_s = 0.0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const bool alike : {false, true}) {
      const std::vector<Arrival> arrivals = workload(seed, 80, alike);
      const Outcomes plain = run<Plain>(120, arrivals);
      const Outcomes finding = run<Finding>(120, arrivals);
      for (std::size_t i = 0; i < arrivals.size(); ++i) {
        CHECK(finding.requests[i].outcome == Outcome::served);
        CHECK(finding.requests[i].delivered == arrivals[i].spec.output);
      }
      preempted += finding.preempted;
      plain_s += plain.end;
      finding_s += finding.end;
    }
  }
  CHECK(preempted > 100); // otherwise the test would check nothing
  CHECK(finding_s < plain_s);
}

TEST_CASE("a prompt that was just computed is not recomputed, and is stored once") {
  std::vector<Arrival> arrivals(2);
  arrivals[0].spec = {Seconds{0}, Tokens{480}, Tokens{50}, {}};
  BlockKey key{};
  for (std::uint64_t block = 0; block < 30; ++block) arrivals[0].keys.push_back(key = next_key(key, block));
  arrivals[1] = arrivals[0];
  arrivals[1].spec.arrival = Seconds{0.5}; // the first still decodes
  // Each request needs 34 blocks: two fit in 40 only if the prefix is stored once.
  const Outcomes finding = run<Finding>(40, arrivals);
  const Outcomes plain = run<Plain>(40, arrivals);
  CHECK(finding.requests[1].ttft() < plain.requests[1].ttft() / 4.0);
  CHECK(finding.requests[1].first < finding.requests[0].last);
  CHECK(plain.requests[1].first > plain.requests[0].last);
}
