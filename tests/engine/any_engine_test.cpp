// SPDX-License-Identifier: Apache-2.0
// AnyEngine does what the engine type inside it does, event by event, and so does its fork.
#include "sluice/engine/any_engine.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/priority_first.hpp"

#include "engine/noted_events.hpp"
#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

template <class System>
using Noted = With<System, SmallCost, BasicSimulated<SmallCost>, Notes>;

using Any = AnyEngine<BasicSimulated<SmallCost>, SmallCost, Notes>;

template <class System>
typename Noted<System>::Config noting(const Trial& trial, std::vector<Happened>& into) {
  auto config = trial_config<Noted<System>>(trial, SmallCost{});
  config.observers = std::tuple{Notes{&into}};
  return config;
}

/// The state that both expose after a step.
struct Shown {
  Seconds now, due;
  std::int64_t alive, steps;
  friend bool operator==(const Shown&, const Shown&) = default;
};
template <class E>
Shown shown(const E& engine) {
  return {engine.now(), engine.next_due(), engine.alive(), engine.steps()};
}

} // namespace

TEST_CASE_TEMPLATE("an erased engine repeats the typed engine's run with cancellations", System, OrbitFlow, VllmSwap,
                   SuperInfer) {
  static_assert(std::is_same_v<decltype(make_any<Noted<System>>({})), Expected<Any>>);
  Random random(23);
  std::int64_t cancelled = 0, steps = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    const Trial trial = random_trial(random);
    const auto every = static_cast<std::int64_t>(3 + random.below(30));
    std::vector<Happened> typed_events, any_events;
    auto typed = Noted<System>::make(noting<System>(trial, typed_events));
    auto any = make_any<Noted<System>>(noting<System>(trial, any_events));
    REQUIRE(typed.has_value());
    REQUIRE(any.has_value());
    std::size_t next = 0;
    for (int guard = 0; guard < 200'000; ++guard) {
      while (next < trial.requests.size() && trial.requests[next].arrival <= typed->now()) {
        const Expected<RequestId> one = typed->submit(trial.requests[next]);
        const Expected<RequestId> other = any->submit(trial.requests[next++]);
        REQUIRE(one.has_value() == other.has_value());
        if (one) REQUIRE(*one == *other);
      }
      if (guard % every == every - 1 && next > 0) {
        const RequestId id{static_cast<std::uint32_t>(random.below(next))};
        const Status one = typed->cancel(id);
        const Status other = any->cancel(id);
        REQUIRE(one.ok() == other.ok()); // a request that has ended cannot be cancelled
        cancelled += one.ok();
      }
      const Stepped one = typed->step();
      REQUIRE(any->step() == one);
      REQUIRE(shown(*any) == shown(*typed));
      REQUIRE(any->view().running.size() == typed->view().running.size());
      REQUIRE(any->status().ok());
      if (one == Stepped::ran) continue;
      if (next == trial.requests.size()) break;
      typed->idle_until(trial.requests[next].arrival);
      any->idle_until(trial.requests[next].arrival);
    }
    REQUIRE(typed->alive() == 0);
    CHECK(any_events == typed_events);
    steps += any->steps();
  }
  CHECK(cancelled > 0);
  CHECK(steps > 200);
}

TEST_CASE_TEMPLATE("a fork of an erased engine repeats its future", System, OrbitFlow, VllmSwap) {
  Random random(29);
  int forked = 0;
  for (int round = 0; round < 8; ++round) {
    CAPTURE(round);
    const Trial trial = random_trial(random);
    std::vector<Happened> own, forks, twins;
    auto engine = make_any<Noted<System>>(noting<System>(trial, own));
    auto twin = Noted<System>::make(noting<System>(trial, twins)); // has the backend in the same state
    REQUIRE(engine.has_value());
    REQUIRE(twin.has_value());
    std::size_t next = 0;
    for (int step = 0; step < 20; ++step) {
      for (; next < trial.requests.size() && trial.requests[next].arrival <= engine->now(); ++next) {
        (void)engine->submit(trial.requests[next]);
        (void)twin->submit(trial.requests[next]);
      }
      (void)twin->step();
      if (engine->step() == Stepped::ran) continue;
      if (next == trial.requests.size()) break;
      engine->idle_until(trial.requests[next].arrival);
      twin->idle_until(trial.requests[next].arrival);
    }
    forked += engine->alive() > 0;
    Any fork = engine->fork(twin->backend(), std::tuple{Notes{&forks}});
    const std::size_t before = own.size();
    serve_to_end(fork, trial, next);
    CHECK(own.size() == before); // the fork has an observer of its own
    serve_to_end(*engine, trial, next);
    own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(before));
    CHECK(forks == own);
  }
  CHECK(forked > 0);
}

TEST_CASE("an erased engine that cannot be made reports the typed engine's error") {
  Random random(31);
  Trial trial = random_trial(random);
  trial.device = LayerBlocks{0};
  std::vector<Happened> ignored;
  const auto typed = Noted<VllmSwap>::make(noting<VllmSwap>(trial, ignored));
  const auto any = make_any<Noted<VllmSwap>>(noting<VllmSwap>(trial, ignored));
  REQUIRE(!typed.has_value());
  REQUIRE(!any.has_value());
  CHECK(any.error().line() == typed.error().line());
}

TEST_CASE("an erased engine reports whether its admission reads priorities") {
  Random random(37);
  const Trial trial = random_trial(random);
  std::vector<Happened> ignored;
  using First = With<VllmSwap, PriorityFirst>;
  const auto plain = make_any<Noted<VllmSwap>>(noting<VllmSwap>(trial, ignored));
  const auto priority = make_any<Noted<First>>(noting<First>(trial, ignored));
  REQUIRE(plain.has_value());
  REQUIRE(priority.has_value());
  CHECK_FALSE(orders_by_priority(*plain));
  CHECK(orders_by_priority(*priority));
}
