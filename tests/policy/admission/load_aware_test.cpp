// SPDX-License-Identifier: Apache-2.0
// LoadAware: where requests' KV goes, and which decodes the host attends.
#include "sluice/core/random.hpp"
#include "sluice/policy/admission/load_aware.hpp"
#include "sluice/policy/cost/sub_batches.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace load_aware_test {

using namespace sluice;
using namespace sluice::testing;

/// A layer takes a millisecond for its weights, and time for each token and each token read.
struct Costs {
  double token_s = 2e-5, context_s = 1e-7;
  BytesPerSecond host{1e9};
  Seconds launch{0};
  int batches = 2;
  Geometry geometry{4, Bytes{4096}, Bytes{1 << 20}, Bytes{2048}};

  [[nodiscard]] StepTime step(const Work& work) const {
    if (work.tokens() == Tokens{0}) return {};
    return {Seconds{1e-4},
            Seconds{1e-3 + token_s * static_cast<double>(work.tokens().count()) +
                    context_s * static_cast<double>(work.decode_context.count())},
            Seconds{1e-4}};
  }
  [[nodiscard]] LinkCost link() const {
    LinkCost link{BytesPerSecond{1e10}, Seconds{1e-6}};
    link.host_attention_rate = host;
    link.host_attention_launch = launch;
    link.host_attention_batches = batches;
    return link;
  }
  [[nodiscard]] Estimate estimate() const {
    static const EstimateTable table{
        [](const void* self, const Work& work) { return step_time(*static_cast<const Costs*>(self), work); },
        [](const void* self) { return static_cast<const Costs*>(self)->link(); }, nullptr};
    return {table, this, geometry};
  }
};

struct HostScene {
  HandMade made;
  LoadAware policy;
  LoadAware::State state;
  Costs costs;

  /// A memory for so many blocks of all layers.
  HostScene(std::int64_t device, std::int64_t host) {
    made.geometry = costs.geometry;
    made.limits = {.batch = 64, .batch_tokens = Tokens{4096}};
    made.ledger = Ledger{LayerBlocks{4 * device}, LayerBlocks{4 * host}};
  }
  Slot decode(std::int64_t context, bool on_host, double last_token_s) {
    const Slot slot = made.decoding(Tokens{context - 1}, Tokens{1}, Tokens{1000});
    RequestRow& row = made.rows[index(slot)];
    row.last_token = Seconds{last_token_s};
    if (on_host) {
      row.holding.host = LayerSet::all(4);
      row.holding.attended_on_host = true;
    }
    return slot;
  }
  Slot wait(std::int64_t prompt) {
    const Slot slot = made.add(Tokens{prompt}, Tokens{1000}, Tokens{0}, Tokens{0}, Phase::waiting);
    policy.enter(state, slot, made.rows[index(slot)]);
    return slot;
  }
  Proposal propose() {
    Proposal proposal;
    policy.propose(made.view(), state, proposal, costs.estimate());
    return proposal;
  }
  Claim of(Slot slot) {
    const Proposal proposal = propose();
    const auto found = std::find_if(proposal.claims.begin(), proposal.claims.end(),
                                    [slot](const Claim& claim) { return claim.slot == slot; });
    REQUIRE(found != proposal.claims.end());
    return *found;
  }
};

TEST_CASE("the newest decode moves to the host when the device is full, and comes back when there is room") {
  HostScene scene(20, 1000);
  const Slot old = scene.decode(161, false, 99.9);
  const Slot young = scene.decode(161, false, 99.9); // 11 blocks each, and 20 there are
  CHECK(!scene.of(old).on_host);
  CHECK(scene.of(young).on_host);
  HostScene roomy(30, 1000);
  const Slot there = roomy.decode(161, true, 99.9);
  CHECK(!roomy.of(there).on_host);
  HostScene full(11, 1000); // it would fill more than 95 %
  CHECK(full.of(full.decode(161, true, 99.9)).on_host);
}

TEST_CASE("newcomers get the host after the first that finds no room on the device, if the host attends") {
  for (const double rate : {0.0, 1e10}) {
    HostScene scene(25, 1000); // 10 blocks for the first, and room for two layers of each prompt that passes
    scene.costs.host = BytesPerSecond{rate};
    const Slot first = scene.wait(160), second = scene.wait(320), third = scene.wait(16);
    const Proposal proposal = scene.propose();
    REQUIRE(proposal.claims.size() == (rate > 0 ? 3U : 1U));
    CHECK(proposal.claims[0].slot == first);
    CHECK(!proposal.claims[0].on_host);
    if (rate <= 0) continue;
    CHECK(proposal.claims[1].slot == second);
    CHECK(proposal.claims[1].on_host);
    CHECK(proposal.claims[2].slot == third);
    CHECK(proposal.claims[2].on_host);
  }
}

TEST_CASE("a decode on a host that is too slow sits out, until it has waited for its patience") {
  HostScene scene(100, 1000);
  scene.costs.host = BytesPerSecond{1e6}; // a second for its KV
  for (int i = 0; i < 8; ++i) scene.decode(180, false, 99.9);
  const Slot slow = scene.decode(4000, true, 99.5);
  CHECK(scene.of(slow).tokens == Tokens{0});
  CHECK(scene.of(slow).on_host);
  scene.made.rows[index(slow)].last_token = Seconds{98.5};
  CHECK(scene.of(slow).tokens == Tokens{1});
  scene.costs.host = BytesPerSecond{1e11};
  scene.made.rows[index(slow)].last_token = Seconds{99.5};
  CHECK(scene.of(slow).tokens == Tokens{0}); // one decode does not repay a second reading of the weights
  for (int i = 0; i < 20; ++i) scene.decode(4000, true, 99.6);
  CHECK(scene.of(slow).tokens == Tokens{1}); // but 21 do
}

TEST_CASE("a request that no memory but the host's holds runs alone") {
  HostScene scene(20, 1000);
  scene.costs.host = BytesPerSecond{1e6};
  const Slot large = scene.wait(2000);
  CHECK(scene.of(large).on_host);
}

TEST_CASE("a long decode that does not fit sits out, and the shorter ones behind it run") {
  HostScene scene(2000, 100000);
  for (int i = 0; i < 20; ++i) scene.decode(1500, false, 99.9);
  const Slot longest = scene.decode(100000, true, 99.4); // 0.4 s for its KV in a layer: it has waited longest
  std::vector<Slot> others;
  for (int i = 0; i < 50; ++i) others.push_back(scene.decode(300, true, 99.5));
  const Slot as_long = scene.decode(100000, true, 99.9);
  scene.policy.full = 0; // so that none moves to the device
  const Proposal proposal = scene.propose();
  std::int64_t ran = 0;
  for (const Claim& claim : proposal.claims)
    if (std::find(others.begin(), others.end(), claim.slot) != others.end()) ran += claim.tokens.count();
  CHECK(ran >= 2);
  CHECK(scene.of(longest).tokens == Tokens{0});
  CHECK(scene.of(as_long).tokens == Tokens{0});
  scene.made.rows[index(longest)].last_token = Seconds{98.5}; // now it runs beside the others
  std::int64_t beside = 0;
  for (const Claim& claim : scene.propose().claims)
    if (std::find(others.begin(), others.end(), claim.slot) != others.end()) beside += claim.tokens.count();
  CHECK(scene.of(longest).tokens == Tokens{1});
  CHECK(beside == ran);
}

TEST_CASE("what runs on the host never lets the device wait, unless it is late or the device has no work") {
  Random random(5);
  int none = 0, some = 0, all = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    HostScene scene(4000, 100000);
    scene.policy.full = 0;
    scene.costs.host = BytesPerSecond{1e6 * static_cast<double>(1 + random.below(3000))};
    Work work;
    work.decodes = work.samples = static_cast<std::int64_t>(1 + random.below(30));
    for (std::int64_t i = 0; i < work.decodes; ++i) {
      const auto context = static_cast<std::int64_t>(2 + random.below(1500));
      scene.decode(context, false, 99.9);
      work.decode_context += Tokens{context};
    }
    const std::size_t hosted = 1 + random.below(20);
    for (std::size_t i = 0; i < hosted; ++i)
      scene.decode(static_cast<std::int64_t>(2 + random.below(3000)), true, 99.5 + 0.01 * static_cast<double>(i));
    std::vector<Tokens> runs, sits;
    for (const Claim& claim : scene.propose().claims)
      if (claim.on_host)
        (claim.tokens.count() > 0 ? runs : sits).push_back(scene.made.rows[index(claim.slot)].context());
    REQUIRE(runs.size() + sits.size() == hosted);
    ++(runs.empty() ? none : sits.empty() ? all : some);
    if (runs.empty()) continue;
    // By the cost model itself, which divides what runs.
    work.hosted = {runs, Bytes{4096 / 16}, Bytes{(4096 + 2 * 2048) / 16}};
    const StepTime time = step_time(scene.costs, work);
    CHECK(time.waits.count() <= 1e-12);
    Work alone = work;
    alone.hosted = {};
    const auto rate = [](const StepTime& step, std::int64_t tokens) {
      return static_cast<double>(tokens) / step.total(4).count();
    };
    CHECK(rate(time, work.samples + work.hosted.decodes()) > rate(step_time(scene.costs, alone), work.samples));
  }
  CHECK(none > 5);
  CHECK(some > 5);
  CHECK(all > 5);
}

TEST_CASE("beside one batch, as many run on the host as give the most tokens per second") {
  Random random(7);
  int none = 0, some = 0, all = 0, waited = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    HostScene scene(4000, 100000);
    scene.policy.full = 0;
    scene.costs.batches = 1;
    scene.costs.launch = Seconds{1e-5 * static_cast<double>(random.below(60))};
    scene.costs.host = BytesPerSecond{1e7 * static_cast<double>(1 + random.below(200))};
    Work work;
    work.decodes = work.samples = static_cast<std::int64_t>(1 + random.below(6)); // few and short: less than a launch
    for (std::int64_t i = 0; i < work.decodes; ++i) {
      const auto context = static_cast<std::int64_t>(2 + random.below(100));
      scene.decode(context, false, 99.9);
      work.decode_context += Tokens{context};
    }
    const std::size_t hosted = 1 + random.below(12);
    for (std::size_t i = 0; i < hosted; ++i)
      scene.decode(static_cast<std::int64_t>(2 + random.below(2000)), true, 99.5 + 0.01 * static_cast<double>(i));
    std::vector<Tokens> contexts; // in the order of claims, which is that of waiting
    std::size_t ran = 0;
    for (const Claim& claim : scene.propose().claims)
      if (claim.on_host) {
        if (claim.tokens.count() > 0) CHECK(ran++ == contexts.size()); // the longest waiting ones
        contexts.push_back(scene.made.rows[index(claim.slot)].context());
      }
    REQUIRE(contexts.size() == hosted);
    const auto step = [&](std::size_t number) {
      Work with = work;
      if (number > 0)
        with.hosted = {std::span{contexts}.first(number), Bytes{4096 / 16}, Bytes{(4096 + 2 * 2048) / 16}};
      return step_time(scene.costs, with);
    };
    const auto rate = [&](std::size_t number) {
      const StepTime time = step(number);
      return static_cast<double>(work.samples + static_cast<std::int64_t>(number)) /
             (time.total(4) + time.waits * 4.0).count();
    };
    for (std::size_t other = 0; other <= hosted; ++other) CHECK(rate(ran) >= rate(other) * (1 - 1e-12));
    ++(ran == 0 ? none : ran == hosted ? all : some);
    waited += ran > 0 && step(ran).waits > Seconds{0};
  }
  CHECK(none > 5);
  CHECK(some > 5);
  CHECK(all > 5);
  CHECK(waited > 5);
}

TEST_CASE("the first number of newcomers that no other number beats is found in one pass") {
  Random random(6);
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    HostScene scene(100, 1000);
    scene.costs.host = BytesPerSecond{1e6 * static_cast<double>(1 + random.below(3000))};
    const View view = scene.made.view();
    const Estimate estimate = scene.costs.estimate();
    Work work;
    work.decodes = work.samples = static_cast<std::int64_t>(random.below(30));
    work.decode_context = Tokens{work.decodes * 700};
    std::vector<Tokens> contexts(1 + random.below(20));
    for (Tokens& context : contexts) context = Tokens{static_cast<std::int64_t>(1 + random.below(3000))};
    HostedChoice choice(view, estimate, work);
    const std::size_t count = choice.best_count(contexts);
    // Without any running sum: each number by the cost model, from the start.
    const auto rate = [&](std::size_t number) {
      Work with = work;
      with.hosted = {std::span{contexts}.first(number), Bytes{4096 / 16}, Bytes{(4096 + 2 * 2048) / 16}};
      const StepTime time = step_time(scene.costs, with);
      const double seconds = (time.total(4) + time.waits * 4.0).count();
      return seconds > 0 ? static_cast<double>(work.samples + static_cast<std::int64_t>(number)) / seconds : 0.0;
    };
    for (std::size_t other = 0; other <= contexts.size(); ++other) CHECK(rate(count) >= rate(other) * (1 - 1e-12));
  }
}

TEST_CASE("newcomers leave as much host memory free as the device has") {
  for (const std::int64_t host : {20, 60}) {
    HostScene scene(25, host);
    scene.costs.host = BytesPerSecond{1e10};
    scene.wait(160);
    scene.wait(320);
    CHECK(scene.propose().claims.size() == (host >= 25 + 21 ? 2U : 1U));
  }
}

TEST_CASE("a preempted decode that returns to the host is one that the host attends, or not yet") {
  for (const bool fits : {true, false}) {
    HostScene scene(120, 100000);
    scene.costs.host = BytesPerSecond{fits ? 1e11 : 1e7};
    for (int i = 0; i < 8; ++i) scene.decode(180, false, 99.9);
    for (int i = 0; i < 20; ++i) scene.decode(4000, true, 99.6);
    const Slot back = scene.decode(2000, true, 99.5);
    RequestRow& row = scene.made.rows[index(back)];
    row.phase = Phase::preempted;
    row.may_return = true;
    row.holding.attended_on_host = false;
    scene.made.running.pop_back();
    scene.made.preempted.push_back(back);
    const Proposal proposal = scene.propose();
    const auto found = std::find_if(proposal.claims.begin(), proposal.claims.end(),
                                    [back](const Claim& claim) { return claim.slot == back; });
    if (found == proposal.claims.end()) {
      CHECK(!fits);
      continue;
    }
    CHECK(found->on_host);
    CHECK(found->tokens == Tokens{fits ? 1 : 0});
  }
}

} // namespace load_aware_test
