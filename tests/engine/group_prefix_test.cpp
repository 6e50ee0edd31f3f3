// SPDX-License-Identifier: Apache-2.0
// KeepUntilOverwritten on models whose layers keep different amounts of KV, where requests share prefixes.
#include "sluice/core/random.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"
#include "sluice/report/observer/summary.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

using namespace sluice;
using sluice::testing::Trial;

namespace {

template <class Retained>
using SharedSystem = With<VllmRecompute, Retained, testing::SmallCost, BasicSimulated<testing::SmallCost>, Summary>;
using DroppingShared = SharedSystem<Drop>;
using FindingAtChunks = SharedSystem<KeepUntilOverwritten>;
using FindingAtBlocks = SharedSystem<KeepUntilOverwrittenAt<EveryBlock>>;
using FindingAtBranches = SharedSystem<KeepUntilOverwrittenAt<BranchPoints>>;

struct SharedOutcomes {
  double end_s = 0;
  std::int64_t found = 0, delivered = 0, preempted = 0, steps = 0;
};

/// The keys of each prompt: some begin with the same blocks.
std::vector<std::vector<BlockKey>> shared_keys_of(const Trial& trial, Random& random) {
  std::vector<std::vector<BlockKey>> keys;
  for (std::size_t i = 0; i < trial.requests.size(); ++i) {
    const std::uint64_t topic = random.below(2), shared = random.below(8);
    BlockKey key{};
    keys.emplace_back();
    for (std::uint64_t block = 0; block < static_cast<std::uint64_t>(trial.requests[i].prompt.count()) / 16; ++block)
      keys.back().push_back(key = next_key(key, block < shared ? topic : 1000 + i));
  }
  return keys;
}

template <class E>
SharedOutcomes serve_shared(const Trial& trial, const std::vector<std::vector<BlockKey>>& keys) {
  auto made = E::make(testing::trial_config<E>(trial, {}));
  REQUIRE(made);
  E& engine = *made;
  const LayerBlocks room = engine.ledger().device().capacity();
  SharedOutcomes outcomes;
  for (std::size_t next = 0;;) {
    for (; next < keys.size() && trial.requests[next].arrival <= engine.now(); ++next)
      (void)engine.submit(trial.requests[next], keys[next]);
    const Stepped stepped = engine.step();
    if (stepped == Stepped::failed) FAIL(engine.status().error().line());
    if (stepped == Stepped::idle) {
      if (next == keys.size()) break;
      engine.idle_until(trial.requests[next].arrival);
    }
    REQUIRE(engine.ledger().device().free() <= room); // shared blocks are held, not free
    REQUIRE(engine.ledger().device().used() <= engine.ledger().device().capacity());
  }
  CHECK(engine.alive() == 0);
  CHECK(engine.ledger().device().free() == room); // all of it can be taken again
  for (const RequestRecord& record : engine.template observed<Summary>().requests) {
    outcomes.found += record.found.count();
    outcomes.delivered += record.delivered.count();
    outcomes.preempted += record.times_preempted;
  }
  outcomes.end_s = engine.now().count();
  outcomes.steps = engine.steps();
  return outcomes;
}

/// Four layers: one keeps all, one a window, two a state of two blocks' size.
Trial hybrid_trial(std::int64_t requests_fit) {
  Trial trial;
  trial.layers = 4;
  trial.batch = 8;
  KvGroups kv;
  REQUIRE(kv.add(0, {.entry = 256}));
  REQUIRE(kv.add(1, {.kind = KvKind::sliding, .entry = 256, .window = 32}));
  REQUIRE(kv.add(2, {.kind = KvKind::state, .entry = 8192}));
  REQUIRE(kv.add(3, {.kind = KvKind::state, .entry = 8192}));
  trial.kv = {KvBlocks(kv, Tokens{16}), ReadLimits{kv}};
  trial.device = LayerBlocks{trial.kv.blocks.room(8) * requests_fit};
  trial.host = LayerBlocks{0};
  return trial;
}

} // namespace

TEST_CASE("requests that share prefixes are all served on hybrids, with preemption, and sooner than without") {
  Random random(61);
  std::int64_t found = 0, preempted = 0;
  double dropping_s = 0, finding_s = 0;
  for (int round = 0; round < 60; ++round) {
    const Trial trial = testing::in_groups(testing::random_trial(random), random);
    const std::vector<std::vector<BlockKey>> keys = shared_keys_of(trial, random);
    const SharedOutcomes dropping = serve_shared<DroppingShared>(trial, keys);
    for (const SharedOutcomes& finding :
         {serve_shared<FindingAtChunks>(trial, keys), serve_shared<FindingAtBlocks>(trial, keys),
          serve_shared<FindingAtBranches>(trial, keys)}) {
      CHECK(finding.delivered == dropping.delivered);
      found += finding.found;
      preempted += finding.preempted;
      finding_s += finding.end_s / 3;
    }
    dropping_s += dropping.end_s;
  }
  CHECK(found > 1000);
  CHECK(preempted > 100); // otherwise the test would check little
  CHECK(finding_s < dropping_s);
}

TEST_CASE("one group of all tokens serves as equal layers do, with shared prefixes") {
  Random random(62);
  std::int64_t found = 0;
  for (int round = 0; round < 80; ++round) {
    Trial trial = testing::random_trial(random);
    trial.batch = 1; // two that find the same free blocks at once count them twice, on equal layers until one ends
    const std::vector<std::vector<BlockKey>> keys = shared_keys_of(trial, random);
    const SharedOutcomes alike = serve_shared<FindingAtChunks>(trial, keys);
    KvGroups kv;
    for (int layer = 0; layer < trial.layers; ++layer) REQUIRE(kv.add(layer, {.entry = 256}));
    trial.kv = {KvBlocks(kv, Tokens{16}), ReadLimits{kv}};
    const SharedOutcomes groups = serve_shared<FindingAtChunks>(trial, keys);
    CHECK(groups.end_s == alike.end_s);
    CHECK(groups.steps == alike.steps);
    CHECK(groups.found == alike.found);
    found += groups.found;
  }
  CHECK(found > 1000);
}

TEST_CASE("what a hybrid finds depends on where checkpoints lie") {
  Trial trial = hybrid_trial(64);
  for (int i = 0; i < 4; ++i) { // one after the other, each in two chunks of 64 tokens
    RequestSpec spec;
    spec.arrival = Seconds{10.0 * i};
    spec.prompt = Tokens{128};
    spec.output = Tokens{2};
    trial.requests.push_back(spec);
  }
  const auto found = [&](auto serves, std::uint64_t shared) {
    std::vector<std::vector<BlockKey>> keys(trial.requests.size());
    for (std::size_t i = 0; i < keys.size(); ++i)
      for (std::uint64_t block = 0; block < 8; ++block)
        keys[i].push_back(next_key(block == 0 ? BlockKey{} : keys[i].back(), block < shared ? 1 : 1000 + i));
    return serves(keys).found;
  };
  const auto at_ends = [&](const auto& keys) { return serve_shared<FindingAtChunks>(trial, keys); };
  const auto everywhere = [&](const auto& keys) { return serve_shared<FindingAtBlocks>(trial, keys); };
  const auto at_branches = [&](const auto& keys) { return serve_shared<FindingAtBranches>(trial, keys); };
  CHECK(found(at_ends, 5) == 3 * 64); // the first chunk
  CHECK(found(at_ends, 3) == 0);
  CHECK(found(everywhere, 5) == 3 * 80);
  CHECK(found(everywhere, 3) == 3 * 48);
  CHECK(found(at_branches, 5) == 2 * 80); // the second request computes it again
  CHECK(found(at_branches, 3) == 2 * 48);
}

TEST_CASE(
    "a hybrid's request takes no room for growing layers' blocks that another holds; windows and states are its own") {
  std::vector<BlockKey> keys;
  for (std::uint64_t block = 0; block < 9; ++block)
    keys.push_back(next_key(keys.empty() ? BlockKey{} : keys.back(), block));
  for (const std::int64_t more : {11, 10}) {
    Trial trial = hybrid_trial(1);
    const std::int64_t first = trial.kv.blocks.room(9);
    trial.device = LayerBlocks{first + more};
    auto made = FindingAtBlocks::make(testing::trial_config<FindingAtBlocks>(trial, {}));
    REQUIRE(made);
    FindingAtBlocks& engine = *made;
    const RequestSpec spec{Seconds{0}, Tokens{144}, Tokens{90}, {}};
    REQUIRE(engine.submit(spec, keys));
    while (engine.view().rows[0].computed < Tokens{144}) REQUIRE(engine.step() == Stepped::ran);
    REQUIRE(engine.ledger().device().free() == LayerBlocks{more});
    REQUIRE(engine.submit(spec, keys));
    REQUIRE(engine.step() == Stepped::ran);
    // The first takes one more. The second finds 8 of 9 blocks, two of which are in its window of 3 blocks and count as
    // new when it asks for room: 3 + 3 + 2 * 2 layer blocks. It takes 1 + 3 + 2 * 2.
    CHECK(engine.view().running.size() == (more == 11 ? 2u : 1u));
    CHECK(engine.ledger().device().free().count() == (more == 11 ? 2 : 9));
    if (more == 11) CHECK(engine.view().rows[1].found == Tokens{128});
    while (engine.step() == Stepped::ran) {
    }
    CHECK(engine.alive() == 0);
    CHECK(engine.ledger().device().free() == LayerBlocks{first + more});
  }
}
