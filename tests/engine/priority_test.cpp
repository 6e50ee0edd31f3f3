// SPDX-License-Identifier: Apache-2.0
// VllmPriority and VllmPriorityPreempts: the order of joins and preemptions, and the inversion of vllm#40004.
#include "sluice/engine/systems/vllm.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

using namespace sluice;
using sluice::testing::SmallCost;
using sluice::testing::Trial;

namespace {

template <class System>
using Tried = With<System, SmallCost, BasicSimulated<SmallCost>>;

template <class System>
Tried<System> engine_of(const Trial& trial) {
  using E = Tried<System>;
  auto made = E::make(testing::trial_config<E>(trial, SmallCost{}));
  REQUIRE(made.has_value());
  return *std::move(made);
}

/// (priority, id): the order of vLLM's scheduler. Ids follow arrivals.
using Key = std::pair<std::int32_t, std::uint32_t>;

/// The live requests, by phase.
template <class E>
std::map<Key, Phase> phases(const E& engine) {
  std::map<Key, Phase> all;
  for (const RequestRow& row : engine.view().rows)
    if (row.phase != Phase::ended) all[{row.spec.priority, index(row.id)}] = row.phase;
  return all;
}

struct Seen {
  int joined = 0, preempted = 0, at_once = 0; ///< at_once: joined in a step in which another was preempted
};

/// Serves random requests of random priorities, and checks every step.
template <class System>
Seen check_order() {
  Random random(5);
  Seen seen;
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    Trial trial = testing::random_trial(random);
    for (RequestSpec& spec : trial.requests) spec.priority = static_cast<std::int32_t>(random.below(4)) - 2;
    auto engine = engine_of<System>(trial);
    std::map<Key, Phase> before;
    testing::serve_arrivals(engine, trial, [&] {
      const std::map<Key, Phase> after = phases(engine);
      Key last_running{-100, 0}, first_waiting{100, 0};
      int joined = 0, preempted = 0;
      for (const auto& [key, phase] : after) {
        const auto was = before.find(key);
        const bool ran = was != before.end() && was->second == Phase::running;
        if (phase == Phase::running) last_running = key; // ordered by key
        if (phase != Phase::running && first_waiting.first == 100) first_waiting = key;
        joined += phase == Phase::running && !ran;
        preempted += phase == Phase::preempted && ran;
        if (phase == Phase::running && !ran)
          CHECK_MESSAGE(key < first_waiting, "nobody is passed by a joining request");
      }
      for (const auto& [key, phase] : after) {
        const auto was = before.find(key);
        if (phase == Phase::preempted && was != before.end() && was->second == Phase::running)
          CHECK_MESSAGE(last_running < key, "the preempted request is the least urgent of all");
      }
      seen.joined += joined;
      seen.preempted += preempted;
      seen.at_once += joined > 0 && preempted > 0;
      before = after;
    });
  }
  return seen;
}

RequestSpec request(std::int64_t prompt, std::int64_t output, std::int32_t priority) {
  return {.prompt = Tokens{prompt}, .output = Tokens{output}, .slo = {}, .priority = priority};
}

/// Requests of priority 1 run when one of priority 0 comes. Returns how many iterations pass until it runs, and how
/// many requests are preempted then.
template <class System>
std::pair<int, std::size_t> inversion(int batch, std::int64_t device_blocks, int lows, const RequestSpec& urgent) {
  Trial trial{
      .layers = 2, .batch = batch, .device = LayerBlocks{2 * device_blocks}, .host = LayerBlocks{1000}, .requests = {}};
  auto engine = engine_of<System>(trial);
  for (int i = 0; i < lows; ++i) REQUIRE(engine.submit(request(33, 60 + 10 * i, 1)));
  for (int i = 0; i < 8; ++i) REQUIRE(engine.step() == Stepped::ran);
  REQUIRE(engine.view().running.size() == static_cast<std::size_t>(lows));
  const Expected<RequestId> id = engine.submit(urgent);
  REQUIRE(id);
  for (int steps = 1; steps < 500; ++steps) {
    REQUIRE(engine.step() == Stepped::ran);
    for (const Slot slot : engine.view().running)
      if (engine.view().row(slot).id == *id) return {steps, engine.view().preempted.size()};
  }
  return {-1, 0};
}

} // namespace

TEST_CASE("priorities order joins and preemptions in every step of random runs") {
  const Seen plain = check_order<VllmPriority>();
  CHECK(plain.joined > 1000);
  CHECK(plain.preempted > 50);
  CHECK(plain.at_once == 0); // vLLM: no request joins in a step that preempts
  const Seen preempting = check_order<VllmPriorityPreempts>();
  CHECK(preempting.joined > 1000);
  CHECK(preempting.preempted > plain.preempted);
  CHECK(preempting.at_once > 50);
}

TEST_CASE("vllm#40004: an urgent request waits for a place that less urgent ones have, unless it preempts") {
  const RequestSpec urgent = request(20, 5, 0);
  CHECK(inversion<VllmPriority>(3, 100, 3, urgent).first > 50); // until the first of them ends
  CHECK(inversion<VllmPriorityPreempts>(3, 100, 3, urgent) == std::pair{1, std::size_t{1}});
  CHECK(inversion<VllmPriorityPreempts>(4, 100, 3, urgent) == std::pair{1, std::size_t{0}}); // there is a place
  CHECK(inversion<VllmPriorityPreempts>(3, 100, 3, request(20, 5, 1)).first > 50);           // as urgent as they are
}

TEST_CASE("the same for memory, where it takes several requests' room") {
  const RequestSpec urgent = request(60, 5, 0); // 4 blocks; they have 3 each, of 13
  CHECK(inversion<VllmPriority>(8, 13, 4, urgent).first > 10);
  const auto [steps, preempted] = inversion<VllmPriorityPreempts>(8, 13, 4, urgent);
  CHECK(steps == 1);
  CHECK(preempted >= 1);
  const auto [later, both] = inversion<VllmPriorityPreempts>(4, 13, 4, request(100, 5, 0)); // neither place nor memory
  CHECK(later == 1);
  CHECK(both >= 2);
}

TEST_CASE("where all have one priority, VllmPriority does what VllmRecompute does") {
  Random random(6);
  for (int round = 0; round < 40; ++round) {
    Trial trial = testing::random_trial(random);
    for (RequestSpec& spec : trial.requests) spec.priority = 7;
    std::vector<std::map<Key, Phase>> seen[3];
    const auto serve = [&](auto engine, auto& into) {
      testing::serve_arrivals(engine, trial, [&] { into.push_back(phases(engine)); });
    };
    serve(engine_of<VllmRecompute>(trial), seen[0]);
    serve(engine_of<VllmPriority>(trial), seen[1]);
    serve(engine_of<VllmPriorityPreempts>(trial), seen[2]);
    CHECK(seen[0] == seen[1]);
    CHECK(seen[0] == seen[2]);
  }
}
