// SPDX-License-Identifier: Apache-2.0
// FeedbackQueue: levels against a plain account of who ran for how long.
#include "sluice/policy/admission/feedback_queue.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

TEST_CASE("a request starts at the first level whose quantum its time does not exceed") {
  const FeedbackQueue queue{.quantum = Seconds{1}, .ratio = 2, .levels = 5};
  FeedbackQueue::State state;
  HandMade made;
  for (const double time : {0.5, 1.0, 1.5, 2.0, 4.0, 4.5, 16.0, 1000.0}) {
    const Slot slot = made.add(Tokens{1}, Tokens{1}, Tokens{0}, Tokens{0}, Phase::waiting);
    FeedbackQueue::enter(state, slot, made.rows[index(slot)]);
    queue.start(state, slot, Seconds{time});
    int level = 0;
    for (double quantum = 1; level < 4 && quantum < time; quantum *= 2) ++level;
    CHECK(state.at(slot).level == level);
    CHECK(state.waiting.count(state.at(slot)) == 1);
    FeedbackQueue::leave(state, slot);
    CHECK(state.waiting.empty());
  }
}

TEST_CASE("a request is demoted once it has run for its level's quantum, and never before") {
  Random random(97);
  const FeedbackQueue queue{.quantum = Seconds{1}, .ratio = 2, .levels = 6, .starvation = Seconds{1e6}};
  FeedbackQueue::State state;
  HandMade made;
  made.now = Seconds{0};
  std::vector<double> ran; // since its last demotion
  std::vector<int> level;
  for (int i = 0; i < 5; ++i) {
    const Slot slot = made.add(Tokens{1}, Tokens{100}, Tokens{1}, Tokens{1}, Phase::preempted);
    made.preempted.push_back(slot);
    FeedbackQueue::enter(state, slot, made.rows[index(slot)]);
    queue.start(state, slot, Seconds{0});
    FeedbackQueue::leave(state, slot);
    ran.push_back(0);
    level.push_back(0);
  }
  int demoted = 0;
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    const Slot runs{static_cast<std::uint32_t>(random.below(5))};
    made.running = {runs};
    made.preempted.clear();
    for (std::uint32_t k = 0; k < 5; ++k)
      if (Slot{k} != runs) made.preempted.push_back(Slot{k});
    made.rows[index(runs)].running_since = made.now;
    const double seconds = 0.3 * random.uniform();
    made.now += Seconds{seconds};
    queue.charge(made.view(), state);
    ran[index(runs)] += seconds;
    int& at = level[index(runs)];
    if (at < 5 && ran[index(runs)] >= (1 << at) * (1 - 1e-12)) {
      ++at;
      ran[index(runs)] = 0;
      ++demoted;
    }
    for (std::uint32_t k = 0; k < 5; ++k) CHECK(state.at(Slot{k}).level == level[k]);
  }
  CHECK(demoted > 15);
}

TEST_CASE("requests of one level keep the order in which they came to it, and starved ones go to the first") {
  const FeedbackQueue queue{.quantum = Seconds{1}, .ratio = 2, .levels = 6, .starvation = Seconds{10}};
  FeedbackQueue::State state;
  HandMade made;
  made.now = Seconds{0};
  std::vector<Slot> slots;
  for (int i = 0; i < 6; ++i) {
    slots.push_back(made.add(Tokens{1}, Tokens{100}, Tokens{0}, Tokens{0}, Phase::waiting));
    RequestRow& row = made.rows[index(slots.back())];
    row.spec.arrival = Seconds{static_cast<double>(i)};
    FeedbackQueue::enter(state, slots.back(), row);
    queue.start(state, slots.back(), Seconds{i % 2 == 0 ? 3.0 : 1.0}); // levels 2 and 0
  }
  std::vector<Slot> order;
  for (const FeedbackQueue::Entry& entry : state.waiting) order.push_back(entry.slot);
  CHECK(order == std::vector{slots[1], slots[3], slots[5], slots[0], slots[2], slots[4]});
  made.now = Seconds{12.5}; // the first and the third have waited for more than 10 s
  queue.charge(made.view(), state);
  order.clear();
  for (const FeedbackQueue::Entry& entry : state.waiting) order.push_back(entry.slot);
  CHECK(order == std::vector{slots[1], slots[3], slots[5], slots[0], slots[2], slots[4]});
  CHECK(state.at(slots[0]).level == 0);
  CHECK(state.at(slots[2]).level == 0);
  CHECK(state.at(slots[4]).level == 2);
}
