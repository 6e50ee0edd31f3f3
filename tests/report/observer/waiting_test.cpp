// SPDX-License-Identifier: Apache-2.0
// Waiting: which limit keeps a request out of an iteration, in iterations made by hand and in real engines.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/report/observer/why.hpp"
#include "sluice/world/simulated.hpp"

#include "engine/trials.hpp"
#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Requests that wait beside one that runs.
struct Queue {
  HandMade made;
  Waiting waiting;
  std::map<RequestId, TimeCause> causes;
  std::vector<Claim> batch;
  IterationRecord record;

  Queue() {
    waiting.learn(made.view());
    batch = {{enter(0, 1), Tokens{1}}};
    record.tokens = Tokens{1};
    record.start = Seconds{1};
    record.device_capacity = LayerBlocks{8 * 100};
  }
  Slot enter(double arrival, std::int64_t prompt) {
    const Slot slot = made.add(Tokens{prompt}, Tokens{9}, Tokens{0}, Tokens{0}, Phase::waiting);
    made.rows[index(slot)].spec.arrival = Seconds{arrival};
    waiting.enter(made.rows[index(slot)]);
    return slot;
  }
  void run() {
    record.batch = batch;
    record.rows = made.rows;
    waiting.judge(record, [this](RequestId id, TimeCause cause) { causes[id] = cause; });
  }
  TimeCause of(Slot slot) { return causes[made.rows[index(slot)].id]; }
};

/// Of all requests together, in seconds.
double spent(const std::vector<RequestTime>& times, TimeCause cause) {
  double sum = 0;
  for (const RequestTime& of : times) sum += seconds_of(of.spent[static_cast<std::size_t>(cause)]);
  return sum;
}

template <class System>
using Observed = With<System, SmallCost, BasicSimulated<SmallCost>, Summary, Why, TimeAudit>;

} // namespace

TEST_CASE("Waiting: a request waits for the first limit that an iteration reaches, and for none that it does not") {
  Queue queue;
  const Slot first = queue.enter(0.5, 320), large = queue.enter(0.6, 960), last = queue.enter(0.7, 320);
  queue.run();
  CHECK(queue.of(first) == TimeCause::queue);
  CHECK(queue.of(last) == TimeCause::queue);
  queue.record.device_used = LayerBlocks{8 * 40}; // 60 blocks are free, and the large prompt takes 61
  const Slot late = queue.enter(1.5, 320);        // while it runs
  queue.run();
  CHECK(queue.of(first) == TimeCause::queue);
  CHECK(queue.of(large) == TimeCause::memory);
  CHECK(queue.of(last) == TimeCause::behind);
  CHECK(queue.of(late) == TimeCause::queue);
  queue.record.start = Seconds{2};
  queue.run();
  CHECK(queue.of(late) == TimeCause::behind);
  queue.record.device_used = LayerBlocks{8 * 39};
  queue.run();
  CHECK(queue.of(large) == TimeCause::queue);
  Plan plan;
  plan.in_flight = LayerBlocks{8};
  queue.record.plan = &plan;
  queue.run();
  CHECK(queue.of(large) == TimeCause::memory);
  queue.record.preempted = 1;
  queue.run();
  CHECK(queue.of(first) == TimeCause::behind);
  queue.record.tokens = queue.made.limits.batch_tokens;
  queue.run();
  CHECK(queue.of(large) == TimeCause::tokens);
  const Slot newest = queue.enter(1.9, 320);
  queue.run();
  CHECK(queue.of(newest) == TimeCause::tokens);
  while (static_cast<int>(queue.batch.size()) < queue.made.limits.batch)
    queue.batch.push_back({queue.made.decoding(Tokens{16}, Tokens{1}, Tokens{9}), Tokens{1}});
  queue.run();
  for (const Slot slot : {first, large, last, late, newest}) CHECK(queue.of(slot) == TimeCause::batch);
}

// vLLM's issue 31731: a prompt that does not fit is the first of the queue, and those behind it would fit.
TEST_CASE("Waiting: requests behind a prompt that does not fit wait behind it, not for memory or to start") {
  Trial trial{.layers = 4, .batch = 8, .device = LayerBlocks{4 * 16}, .host = LayerBlocks{0}, .requests = {}};
  for (const std::int64_t prompt : {48, 220, 16, 16, 16}) {
    RequestSpec spec;
    spec.arrival = Seconds{0.001 * static_cast<double>(trial.requests.size())};
    spec.prompt = Tokens{prompt};
    spec.output = Tokens{20};
    trial.requests.push_back(spec);
  }
  auto made = Observed<VllmRecompute>::make(trial_config<Observed<VllmRecompute>>(trial, SmallCost{}));
  REQUIRE(made.has_value());
  serve_to_end(*made, trial);
  check_times(*made);
  const std::vector<RequestTime> times = Why{}.at_end(made->observed<Why>(), made->now());
  REQUIRE(times.size() == 5);
  const double first_s = seconds_of(times[0].whole());
  const auto share = [&](std::size_t of, TimeCause cause) {
    return seconds_of(times[of].spent[static_cast<std::size_t>(cause)]) / first_s;
  };
  CHECK(share(0, TimeCause::memory) + share(0, TimeCause::behind) == 0);
  CHECK(share(1, TimeCause::memory) > 0.8);
  CHECK(share(1, TimeCause::behind) == 0);
  for (std::size_t i = 2; i < 5; ++i) {
    CHECK(share(i, TimeCause::behind) > 0.8);
    CHECK(share(i, TimeCause::queue) < 0.2);
  }
  CHECK(times[1].spells[1].cause == TimeCause::memory);
}

// check_times compares the sum of all waits with the time until a request first joins.
TEST_CASE_TEMPLATE("Waiting: in random worlds the waits for limits add up to the wait to start, and all occur", System,
                   VllmSwap, OrbitFlow) {
  Random random(31);
  std::map<TimeCause, double> all;
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.host = LayerBlocks{100000};
    auto made = Observed<System>::make(trial_config<Observed<System>>(trial, SmallCost{}));
    REQUIRE(made.has_value());
    serve_to_end(*made, trial);
    check_times(*made);
    const auto times = Why{}.at_end(made->template observed<Why>(), made->now());
    for (const auto cause : {TimeCause::batch, TimeCause::tokens, TimeCause::memory, TimeCause::behind})
      all[cause] += spent(times, cause);
  }
  for (const auto& one : all) CHECK_MESSAGE(one.second > 0, text_of(one.first).key);
}
