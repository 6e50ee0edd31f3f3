// SPDX-License-Identifier: Apache-2.0
// LockStep: engines whose iterations begin and end together.
#include "sluice/engine/node/lock_step.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/report/observer/summary.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// A step takes a second for each decode and each chunk's token.
struct SecondPerToken {
  using role = roles::Cost;
  struct State {};
  [[nodiscard]] StepTime step(const Work& work) const {
    return {Seconds{static_cast<double>(work.tokens().count())}, Seconds{0}, Seconds{0}};
  }
  [[nodiscard]] LinkCost link() const { return {}; }
  [[nodiscard]] const SecondPerToken& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};

/// The group takes as long as its slowest engine, and a second more for each engine that takes part.
struct SlowestAndOne {
  [[nodiscard]] Seconds joint(std::span<const RankWork> ranks) const {
    Seconds slowest{0};
    for (const RankWork& rank : ranks) slowest = std::max(slowest, rank.alone);
    return slowest + Seconds{static_cast<double>(ranks.size())};
  }
};
static_assert(JoinsSteps<SlowestAndOne> && JoinsSteps<ExpertParallel>);

/// A step of no time, alone and in a group.
struct NoTime {
  using role = roles::Cost;
  struct State {};
  [[nodiscard]] StepTime step(const Work& /*work*/) const { return {}; }
  [[nodiscard]] LinkCost link() const { return {}; }
  [[nodiscard]] const NoTime& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};
struct Together {
  Seconds time;
  [[nodiscard]] Seconds joint(std::span<const RankWork> /*ranks*/) const { return time; }
};

using Rank = With<VllmRecompute, BasicSimulated<SecondPerToken>, SecondPerToken, Summary>;

template <class E>
std::vector<E> engines(int count) {
  std::vector<E> ranks;
  for (int i = 0; i < count; ++i) {
    typename E::Config config;
    config.geometry = {1, Bytes{1}, Bytes{1}};
    config.device_blocks = LayerBlocks{1000};
    Expected<E> rank = E::make(std::move(config));
    REQUIRE(rank);
    ranks.push_back(std::move(*rank));
  }
  return ranks;
}
LockStep<Rank, SlowestAndOne> two_engines() { return {engines<Rank>(2), {}}; }

RequestRecord record(const LockStep<Rank, SlowestAndOne>& group, std::size_t rank, std::size_t request) {
  return group.rank(rank).observed<Summary>().requests[request];
}

} // namespace

TEST_CASE("the faster engine waits for the slower one") {
  auto group = two_engines();
  REQUIRE(group.submit(0, {Seconds{0}, Tokens{3}, Tokens{2}, {}}));
  REQUIRE(group.submit(1, {Seconds{0}, Tokens{5}, Tokens{3}, {}}));
  REQUIRE(group.step() == Stepped::ran); // 3 and 5 tokens: 5 + 2 s
  CHECK(group.now().count() == doctest::Approx(7));
  CHECK(record(group, 0, 0).first.count() == doctest::Approx(7));
  CHECK(record(group, 1, 0).first.count() == doctest::Approx(7));
  REQUIRE(group.step() == Stepped::ran); // one token each: 1 + 2 s
  CHECK(record(group, 0, 0).last.count() == doctest::Approx(10));
  CHECK(group.alive() == 1);
  REQUIRE(group.step() == Stepped::ran); // the idle engine takes part
  CHECK(record(group, 1, 0).last.count() == doctest::Approx(13));
  CHECK(group.rank(0).now() == group.rank(1).now());
  CHECK(group.step() == Stepped::idle);
  group.idle_until(Seconds{20});
  CHECK(group.rank(0).now() == Seconds{20});
}

TEST_CASE("an iteration of no time is not stretched") {
  using Instant = With<VllmRecompute, BasicSimulated<NoTime>, NoTime, Summary>;
  LockStep<Instant, Together> instant(engines<Instant>(1), {Seconds{0}});
  REQUIRE(instant.submit(0, {Seconds{0}, Tokens{3}, Tokens{1}, {}}));
  REQUIRE(instant.step() == Stepped::ran);
  CHECK(instant.now() == Seconds{0});
  CHECK(instant.rank(0).observed<Summary>().requests[0].last == Seconds{0});
  // A factor cannot make 0 s longer.
  LockStep<Instant, Together> longer(engines<Instant>(1), {Seconds{2}});
  REQUIRE(longer.submit(0, {Seconds{0}, Tokens{3}, Tokens{1}, {}}));
  REQUIRE(longer.step() == Stepped::failed);
  CHECK(longer.status().error().line().find("an iteration takes 0 s alone") != std::string::npos);
}
