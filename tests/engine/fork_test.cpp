// SPDX-License-Identifier: Apache-2.0
// A fork decides what its engine decides, step by step, and leaves the engine unchanged.
#include "sluice/engine/fork.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/prefix_tiers.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"

#include "engine/noted_events.hpp"
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
    serve_to_end(*unforked, trial);

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
        serve_to_end(last, trial, then);
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
      const Seconds until = next_event(*engine, trial, next);
      if (until == never_due) break;
      engine->idle_until(until);
    }
    CHECK_MESSAGE(alone == noted, "forking changes nothing that the engine does");
  }
  CHECK(forked > 4 * rounds);
  CHECK(alive > forked);
}

} // namespace

TEST_CASE("fork: VllmSwap, steady steps and a swap") { check_forks<VllmSwap>(30); }
TEST_CASE("fork: HiCache, blocks in a tier and on their way to it") { check_forks<HiCache>(20); }
TEST_CASE("fork: VllmOffload, loads that requests wait for") { check_forks<VllmOffload>(20); }
TEST_CASE("fork: VllmPrefixCaching, released blocks that are found again") { check_forks<VllmPrefixCaching>(20); }
TEST_CASE("fork: OrbitFlow, a search, a decision made ahead, deposits and pauses") { check_forks<OrbitFlow>(20); }
TEST_CASE("fork: SuperInfer, copies ahead and rotation") { check_forks<SuperInfer>(20); }
TEST_CASE("fork: SelectN, streamed weights") { check_forks<SelectN>(30); }
