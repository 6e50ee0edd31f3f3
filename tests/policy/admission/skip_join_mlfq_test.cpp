// SPDX-License-Identifier: Apache-2.0
// SkipJoinMlfq: the levels that newcomers skip to, demotion by run time, promotion, and who runs on a full device.
#include "sluice/policy/admission/skip_join_mlfq.hpp"

#include "support/hand_made.hpp"
#include "support/plain_estimate.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Requests on a batch of its own; an iteration gives every claim a token, or its prompt.
struct FeedbackScene {
  HandMade made;
  SkipJoinMlfq policy{{.quantum = Seconds{0.004}, .ratio = 2, .levels = 6, .starvation = Seconds{1e6}}};
  SkipJoinMlfq::State state;
  PlainEstimate costs;
  std::vector<Slot> waiting;
  std::vector<Slot> expected; ///< of the last proposal

  FeedbackScene() { made.limits = {.batch = 1, .batch_tokens = Tokens{1000}}; }
  Slot arrive(std::int64_t prompt) {
    const Slot slot = made.add(Tokens{prompt}, Tokens{1000}, Tokens{0}, Tokens{0}, Phase::waiting);
    made.rows[index(slot)].spec.arrival = made.now;
    policy.enter(state, slot, made.rows[index(slot)]);
    waiting.push_back(slot);
    return slot;
  }
  /// An iteration of `seconds`; returns the slots that ran.
  std::vector<Slot> iterate(double seconds) {
    Proposal proposal;
    policy.propose(made.view(), state, proposal, costs.estimate());
    expected = proposal.next;
    for (const Slot slot : proposal.leaving) {
      std::erase(made.running, slot);
      RequestRow& row = made.rows[index(slot)];
      row.phase = Phase::preempted;
      row.may_return = true;
      row.preempted_since = made.now;
      made.preempted.push_back(slot);
    }
    std::vector<Slot> ran;
    for (const Claim& claim : proposal.claims) {
      RequestRow& row = made.rows[index(claim.slot)];
      ran.push_back(claim.slot);
      if (row.phase == Phase::running) continue;
      CHECK_FALSE(claim.required);
      if (row.phase == Phase::waiting) {
        std::erase(waiting, claim.slot);
        policy.leave(state, claim.slot, row);
      }
      std::erase(made.preempted, claim.slot);
      row.phase = Phase::running;
      row.running_since = made.now;
      row.computed = row.spec.prompt;
      row.blocks = blocks_for(row.computed, made.limits.block_tokens);
      row.slack = Tokens{row.blocks.count() * made.limits.block_tokens.count()} - row.computed;
      row.generated = Tokens{1};
      made.running.push_back(claim.slot);
    }
    made.now += Seconds{seconds};
    ++made.step;
    return ran;
  }
};

} // namespace

TEST_CASE("a newcomer skips the levels whose quantum its prompt exceeds, so a shorter one runs before it") {
  FeedbackScene scene;
  const Slot longer = scene.arrive(30), shorter = scene.arrive(5), shortest = scene.arrive(2);
  CHECK(scene.iterate(0) == std::vector{shortest});
  CHECK(scene.state.queue.at(shortest).level == 0); // 3 ms of 4
  CHECK(scene.state.queue.at(shorter).level == 1);  // 6 ms of 8
  CHECK(scene.state.queue.at(longer).level == 3);   // 31 ms of 32
}

TEST_CASE("requests share the device by levels: each runs its quantum, then those of the same level have their turn") {
  FeedbackScene scene;
  const Slot first = scene.arrive(2), second = scene.arrive(2);
  std::map<Slot, double> ran;
  std::vector<Slot> order;
  for (int i = 0; i < 200; ++i) {
    const std::vector<Slot> now = scene.iterate(0.001);
    REQUIRE(now.size() == 1);
    if (order.empty() || order.back() != now.front()) order.push_back(now.front());
    ran[now.front()] += 0.001;
    // Neither is ahead by more than the quanta of the level that it has begun.
    CHECK(std::abs(ran[first] - ran[second]) <= 0.004 * (1 << std::min<std::size_t>(order.size() / 2, 5)) + 0.002);
  }
  CHECK(order.size() >= 8);
  CHECK(scene.state.queue.at(first).level == 5); // the last level has no end
}

TEST_CASE("a request that has not run for long goes to the first level") {
  FeedbackScene scene;
  scene.policy.queue.starvation = Seconds{0.05};
  const Slot large = scene.arrive(30);
  bool ran = false;
  for (int i = 0; i < 80 && !ran; ++i) {
    if (i % 3 == 0) scene.arrive(1); // always something shorter
    const std::vector<Slot> now = scene.iterate(0.001);
    ran = std::find(now.begin(), now.end(), large) != now.end();
    if (ran) CHECK(i >= 50);
  }
  CHECK(ran);
}

TEST_CASE("those run that batch and device hold together, the first always, and nobody is lost") {
  Random random(7);
  int full = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    FeedbackScene scene;
    scene.made.limits.batch = static_cast<int>(between(random, 1, 4));
    const std::int64_t blocks = between(random, 3, 12);
    scene.made.ledger = Ledger{LayerBlocks{blocks * scene.made.geometry.layers}, LayerBlocks{1 << 20}};
    for (int i = 0; i < 30; ++i) {
      if (random.below(3) == 0) scene.arrive(between(random, 1, 40));
      const std::vector<Slot> now = scene.iterate(0.001 * static_cast<double>(between(random, 1, 6)));
      std::int64_t held = 0;
      for (const Slot slot : now) held += scene.made.rows[index(slot)].blocks.count();
      CHECK((held <= blocks || now.size() == 1));
      CHECK(static_cast<int>(now.size()) <= scene.made.limits.batch);
      CHECK(now.empty() == (scene.made.rows.empty()));
      full += !scene.waiting.empty();
      CHECK(scene.waiting.size() + scene.made.running.size() + scene.made.preempted.size() == scene.made.rows.size());
    }
  }
  CHECK(full > 1000);
}

TEST_CASE("exactly those that have run and do not run now are named, by when NextScheduled expects them") {
  Random random(8);
  int several = 0;
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    FeedbackScene scene;
    scene.policy.queue.starvation = Seconds{0.02};
    scene.made.limits.batch = static_cast<int>(between(random, 1, 4));
    for (int i = 0; i < 40; ++i) {
      if (random.below(3) == 0) scene.arrive(between(random, 1, 40));
      const Seconds now = scene.made.now;
      const std::vector<Slot> ran = scene.iterate(0.001 * static_cast<double>(between(random, 1, 6)));
      CHECK(std::is_permutation(scene.expected.begin(), scene.expected.end(), scene.made.preempted.begin(),
                                scene.made.preempted.end()));
      for (const Slot slot : scene.expected) CHECK(std::find(ran.begin(), ran.end(), slot) == ran.end());
      // Starved ones have been promoted: nobody has to wait for longer than the bound from here on.
      for (const Slot slot : scene.expected) {
        const FeedbackQueue::Account& account = scene.state.queue.accounts[index(slot)];
        CHECK((account.at.level == 0 || now - account.idle <= scene.policy.queue.starvation || account.runs));
      }
      several += scene.expected.size() > 2;
    }
  }
  CHECK(several > 300);
}
