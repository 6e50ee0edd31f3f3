// SPDX-License-Identifier: Apache-2.0
// A fork decides what its engine decides, step by step, and leaves the engine unchanged.
#include "sluice/engine/fork.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Every event, in order, exact to the bit.
struct Happened {
  char what = ' ';
  std::uint32_t id = 0;
  double when = 0;
  std::int64_t count = 0;
  friend bool operator==(const Happened&, const Happened&) = default;
};

/// Records every event.
struct Notes {
  using role = roles::Observer;
  using hears = Events<events::Submitted, events::Refused, events::Preempted, events::Resumed, events::Ended,
                       events::Cancelled, events::Delivered, events::Planned, events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct State {};

  std::vector<Happened>* into = nullptr;

  void note(char what, RequestId id, Seconds when, std::int64_t count = 0) const {
    into->push_back({what, index(id), when.count(), count});
  }
  void on(State&, const events::Submitted& event) const { note('s', event.row.id, event.row.spec.arrival); }
  void on(State&, const events::Refused& event) const { note('r', event.id, event.now); }
  void on(State&, const events::Preempted& event) const {
    note('p', event.row.id, event.now, static_cast<std::int64_t>(event.kept));
  }
  void on(State&, const events::Resumed& event) const { note('R', event.row.id, event.now); }
  void on(State&, const events::Ended& event) const { note('e', event.row.id, event.now); }
  void on(State&, const events::Cancelled& event) const { note('c', event.row.id, event.now); }
  void on(State&, const events::Delivered& event) const { note('d', event.row.id, event.when, event.count.count()); }
  void on(State&, const events::Planned& event) const {
    note('P', RequestId{0}, event.view.now, static_cast<std::int64_t>(event.plan.requests.size()));
    note('v', RequestId{0}, event.virtual_time, event.plan.effort);
  }
  void on(State&, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    note('i', RequestId{static_cast<std::uint32_t>(record.step)}, record.start, record.tokens.count());
    note('I', RequestId{static_cast<std::uint32_t>(record.running)}, record.duration, record.to_device.count());
  }
};

/// Runs until all requests have ended; `next`: the first request that has not arrived.
template <class E>
void finish(E& engine, const Trial& trial, std::size_t next) {
  for (int guard = 0; guard < 200000; ++guard) {
    while (next < trial.requests.size() && trial.requests[next].arrival <= engine.now())
      (void)engine.submit(trial.requests[next++]);
    const Stepped stepped = engine.step();
    REQUIRE(stepped != Stepped::failed);
    if (stepped == Stepped::ran) continue;
    if (next == trial.requests.size()) return;
    engine.idle_until(trial.requests[next].arrival);
  }
}

/// Forks at random steps of random workloads, and forks the fork.
template <class System>
void check_forks(int rounds) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Notes>;
  Random random(17);
  std::int64_t forked = 0, alive = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    if (round % 4 == 3) trial = deepened(std::move(trial), 16 + static_cast<int>(random.below(9)));
    SmallCost world;
    world.rate = BytesPerSecond{5e5 + 5e6 * random.uniform()};
    Bytes layer_weights{1 << 20};
    if constexpr (streams_weights<E>) layer_weights = streamed_weights(trial, random);
    const auto config = [&](std::vector<Happened>& into) {
      auto made = trial_config<E>(trial, world, layer_weights);
      made.observers = std::tuple{Notes{&into}};
      return made;
    };
    std::vector<Happened> alone, noted;
    auto unforked = E::make(config(alone));
    auto engine = E::make(config(noted));
    REQUIRE(unforked.has_value());
    REQUIRE(engine.has_value());
    finish(*unforked, trial, 0);

    const std::int64_t every = static_cast<std::int64_t>(5 + random.below(60));
    std::size_t next = 0;
    for (int guard = 0; guard < 200000; ++guard) {
      while (next < trial.requests.size() && trial.requests[next].arrival <= engine->now())
        (void)engine->submit(trial.requests[next++]);
      if (guard % every == every - 1) {
        const auto before = static_cast<std::ptrdiff_t>(noted.size());
        std::vector<Happened> ahead;
        E fork = engine->fork(engine->backend(), std::tuple{Notes{&ahead}});
        CHECK(fork.now() == engine->now());
        CHECK(fork.alive() == engine->alive());
        std::size_t then = next;
        if (forked % 2 == 1) // its fork continues
          for (int i = 0; i < 7; ++i) {
            while (then < trial.requests.size() && trial.requests[then].arrival <= fork.now())
              (void)fork.submit(trial.requests[then++]);
            if (fork.step() == Stepped::idle) break;
          }
        E last = fork.fork(fork.backend(), std::tuple{Notes{&ahead}});
        finish(last, trial, then);
        check_ledger(last);
        CHECK(last.alive() == 0);
        REQUIRE(noted.size() == static_cast<std::size_t>(before)); // the engine's observers saw nothing
        const bool same = alone.size() == ahead.size() + noted.size() &&
                          std::equal(ahead.begin(), ahead.end(), alone.begin() + before);
        CHECK_MESSAGE(same, "the fork does what the engine would do");
        ++forked;
        alive += engine->alive();
      }
      const Stepped stepped = engine->step();
      REQUIRE(stepped != Stepped::failed);
      if (stepped == Stepped::ran) continue;
      if (next == trial.requests.size()) break;
      engine->idle_until(trial.requests[next].arrival);
    }
    CHECK_MESSAGE(alone == noted, "forking changes nothing that the engine does");
  }
  CHECK(forked > 4 * rounds);
  CHECK(alive > forked);
}

} // namespace

TEST_CASE("fork: VllmSwap, steady steps and a swap") { check_forks<VllmSwap>(30); }
TEST_CASE("fork: VllmPrefixCaching, released blocks that are found again") { check_forks<VllmPrefixCaching>(20); }
TEST_CASE("fork: OrbitFlow, a search, a decision made ahead, deposits and pauses") { check_forks<OrbitFlow>(20); }
TEST_CASE("fork: SuperInfer, copies ahead and rotation") { check_forks<SuperInfer>(20); }
TEST_CASE("fork: SelectN, streamed weights") { check_forks<SelectN>(15); }
