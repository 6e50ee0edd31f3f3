// SPDX-License-Identifier: Apache-2.0
// A fork does what its engine does, step by step, and the engine does not notice.
#include "sluice/engine/fork.hpp"
#include "sluice/systems/orbitflow.hpp"
#include "sluice/systems/streamed_weights.hpp"
#include "sluice/systems/superinfer.hpp"
#include "sluice/systems/vllm.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// What happened, in order, to the bit.
struct Happened {
  char what = ' ';
  std::uint32_t id = 0;
  double when = 0;
  std::int64_t count = 0;
  friend bool operator==(const Happened&, const Happened&) = default;
};

/// Writes down everything that it is told.
struct Notes {
  using role = roles::Observer;
  static constexpr bool wants_timeline = false;
  struct State {};

  std::vector<Happened>* into = nullptr;

  void note(char what, RequestId id, Seconds when, std::int64_t count = 0) const {
    into->push_back({what, index(id), when.count(), count});
  }
  void submitted(State&, const RequestRow& row) const { note('s', row.id, row.spec.arrival); }
  void refused(State&, RequestId id, const RequestSpec&, Seconds now, std::string_view) const { note('r', id, now); }
  void preempted(State&, const RequestRow& row, Kept kept, Seconds now) const {
    note('p', row.id, now, static_cast<std::int64_t>(kept));
  }
  void resumed(State&, const RequestRow& row, Seconds now) const { note('R', row.id, now); }
  void ended(State&, const RequestRow& row, Seconds now) const { note('e', row.id, now); }
  void cancelled(State&, const RequestRow& row, Seconds now) const { note('c', row.id, now); }
  void delivered(State&, const RequestRow& row, Tokens count, Seconds when) const {
    note('d', row.id, when, count.count());
  }
  void planned(State&, const View& view, const Plan& plan, Seconds virtual_time, Seconds) const {
    note('P', RequestId{0}, view.now, static_cast<std::int64_t>(plan.requests.size()));
    note('v', RequestId{0}, virtual_time, plan.effort);
  }
  template <class Replay>
  void iterated(State&, const IterationRecord& record, const Replay&) const {
    note('i', RequestId{static_cast<std::uint32_t>(record.step)}, record.start, record.tokens.count());
    note('I', RequestId{static_cast<std::uint32_t>(record.running)}, record.duration, record.to_device.count());
  }
};

/// Runs to the end; `next`: of the requests, the first that has not come.
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

/// Forks at random steps of random workloads; the fork of a fork too.
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
        if (forked % 2 == 1) // its fork goes on
          for (int i = 0; i < 7; ++i) {
            while (then < trial.requests.size() && trial.requests[then].arrival <= fork.now())
              (void)fork.submit(trial.requests[then++]);
            if (fork.step() == Stepped::idle) break;
          }
        E last = fork.fork(fork.backend(), std::tuple{Notes{&ahead}});
        finish(last, trial, then);
        check_ledger(last);
        CHECK(last.alive() == 0);
        REQUIRE(noted.size() == static_cast<std::size_t>(before)); // nothing was told to the engine's observers
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
    CHECK_MESSAGE(alone == noted, "an engine that was forked does what it would have done");
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
