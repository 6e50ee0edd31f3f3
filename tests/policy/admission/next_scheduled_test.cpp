// SPDX-License-Identifier: Apache-2.0
// NextScheduled: the estimate against the paper's double sum, request by request, and the order that it gives.
#include "sluice/policy/admission/feedback_queue.hpp"

#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Requests of random levels; some wait, the others have run and stopped at random times.
struct LevelScene {
  FeedbackQueue queue;
  FeedbackQueue::State state;
  std::vector<FeedbackQueue::Entry> begun;
  std::vector<FeedbackQueue::Entry> all;
  Seconds now{100};
  int batch = 1;

  explicit LevelScene(Random& random) {
    queue.quantum = Seconds{0.01 + random.uniform()};
    queue.ratio = 1 + 2 * random.uniform();
    queue.levels = static_cast<int>(between(random, 1, 8));
    queue.starvation = Seconds{1 + 50 * random.uniform()};
    batch = static_cast<int>(between(random, 1, 8));
    const std::int64_t count = between(random, 1, 30);
    for (std::int64_t i = 0; i < count; ++i) {
      const Slot slot{static_cast<std::uint32_t>(i)};
      RequestRow row;
      row.spec.arrival = now - queue.starvation * (1.2 * random.uniform());
      FeedbackQueue::enter(state, slot, row);
      queue.start(state, slot, queue.quantum_of(static_cast<int>(between(random, 0, queue.levels - 1))));
      all.push_back(state.at(slot));
      if (random.below(3) == 0) continue;
      FeedbackQueue::leave(state, slot);
      state.accounts[index(slot)].runs = random.below(3) == 0;
      begun.push_back(state.at(slot));
    }
  }
  /// The paper's formula as it stands: for each request of a higher level, the quanta of the levels down to this one.
  [[nodiscard]] double execute(const FeedbackQueue::Entry& of) const {
    double sum = 0;
    for (const FeedbackQueue::Entry& other : all)
      for (int level = other.level; level < of.level; ++level)
        sum += queue.quantum.count() * std::pow(queue.ratio, level);
    return sum / batch;
  }
  [[nodiscard]] double promote(const FeedbackQueue::Entry& of) const {
    const FeedbackQueue::Account& account = state.accounts[index(of.slot)];
    if (of.level == 0) return 0;
    const double idle = account.runs ? 0 : (now - account.idle).count();
    return std::max(0.0, queue.starvation.count() - idle);
  }
};

} // namespace

TEST_CASE("a request is expected when starvation promotes it, or the higher levels have come down, if that is sooner") {
  Random random(311);
  int promoted = 0, executed = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const LevelScene scene(random);
    const NextScheduled next(scene.queue, scene.state, scene.begun, scene.batch);
    for (const FeedbackQueue::Entry& one : scene.begun) {
      const double execute = scene.execute(one), promote = scene.promote(one);
      CHECK(next.execute(one.slot).count() == doctest::Approx(execute));
      CHECK(next.promote(one.slot, scene.now).count() == doctest::Approx(promote));
      CHECK(next(one.slot, scene.now).count() == doctest::Approx(std::min(execute, promote)));
      CHECK(next(one.slot, scene.now) <= scene.queue.starvation); // nobody is expected later than its promotion
      if (one.level == 0) CHECK(next(one.slot, scene.now).count() == 0);
      promoted += promote < execute;
      executed += execute < promote;
    }
  }
  CHECK(promoted > 300);
  CHECK(executed > 300);
}

TEST_CASE("the order is that of the estimates, and of the queue among equal ones; it names each request once") {
  Random random(312);
  int overtakes = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const LevelScene scene(random);
    const NextScheduled next(scene.queue, scene.state, scene.begun, scene.batch);
    std::vector<Slot> order{Slot{77}}; // what was there is replaced
    next.sort(scene.begun, scene.now, order);
    REQUIRE(order.size() == scene.begun.size());
    for (const FeedbackQueue::Entry& one : scene.begun) CHECK(std::count(order.begin(), order.end(), one.slot) == 1);
    for (std::size_t i = 1; i < order.size(); ++i) {
      const Seconds before = next(order[i - 1], scene.now), after = next(order[i], scene.now);
      CHECK(before <= after);
      if (before == after) CHECK(scene.state.at(order[i - 1]) < scene.state.at(order[i]));
      overtakes += scene.state.at(order[i]) < scene.state.at(order[i - 1]); // promoted before a higher level's turn
    }
  }
  CHECK(overtakes > 100);
}

TEST_CASE("with the paper's quanta: the sum over two requests of higher levels, for a batch of two") {
  // Quanta 1, 2, 4 s; one request of level 0, one of level 1, this one of level 2: the first runs 1 + 2 s until it has
  // come down, the second 2 s, two at a time.
  const FeedbackQueue queue{.quantum = Seconds{1}, .ratio = 2, .levels = 3, .starvation = Seconds{60}};
  FeedbackQueue::State state;
  std::vector<FeedbackQueue::Entry> begun;
  for (std::uint32_t i = 0; i < 3; ++i) {
    FeedbackQueue::enter(state, Slot{i}, {});
    queue.start(state, Slot{i}, queue.quantum_of(static_cast<int>(i)));
    FeedbackQueue::leave(state, Slot{i});
    begun.push_back(state.at(Slot{i}));
  }
  const NextScheduled next(queue, state, begun, 2);
  CHECK(next(Slot{2}, Seconds{0}).count() == doctest::Approx(2.5));
  CHECK(next(Slot{1}, Seconds{0}).count() == doctest::Approx(0.5));
  CHECK(next(Slot{2}, Seconds{59}).count() == doctest::Approx(1)); // it starves in a second
}
