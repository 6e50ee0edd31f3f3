// SPDX-License-Identifier: Apache-2.0
// Trials: random small worlds and traces, and what every engine owes in them.
#pragma once

#include "sluice/core/random.hpp"
#include "sluice/engine/engine.hpp"

#include "engine/audit.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sluice::testing {

/// A world of a few layers and a slow link: everything happens within a few hundred steps.
struct SmallCost {
  using role = roles::Cost;
  struct State {};
  Seconds base{0.01};
  Seconds per_token{1e-5};
  BytesPerSecond rate{1e6};
  Lanes lanes = Lanes::shared;

  [[nodiscard]] StepTime step(const Work& work) const {
    const double tokens = static_cast<double>((work.tokens() + work.rebuilt.projected + work.rebuilt.passed).count()) +
                          0.1 * static_cast<double>(work.decode_context.count());
    return {Seconds{0.001}, base * 0.1 + per_token * tokens, Seconds{0.001}};
  }
  [[nodiscard]] LinkCost link() const { return {rate, Seconds{1e-5}, lanes, rate, 0.3}; }
  [[nodiscard]] const SmallCost& believe(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};

struct Trial {
  int layers;
  int batch;
  LayerBlocks device;
  LayerBlocks host;
  std::vector<RequestSpec> requests;
};

inline Trial random_trial(Random& random) {
  Trial trial;
  trial.layers = 2 + static_cast<int>(random.below(9));
  trial.batch = 1 + static_cast<int>(random.below(6));
  trial.device = LayerBlocks{trial.layers * static_cast<std::int64_t>(6 + random.below(30))};
  trial.host = LayerBlocks{random.below(4) == 0 ? static_cast<std::int64_t>(random.below(60)) : 100000};
  double now = 0;
  const auto count = 3 + random.below(20);
  for (std::uint64_t i = 0; i < count; ++i) {
    now += random.uniform() * 0.3;
    RequestSpec spec;
    spec.arrival = Seconds{now};
    spec.prompt = Tokens{static_cast<std::int64_t>(1 + random.below(120))};
    spec.output = Tokens{static_cast<std::int64_t>(1 + random.below(120))};
    spec.slo.tbt = Seconds{0.01 + 0.05 * random.uniform()};
    trial.requests.push_back(spec);
  }
  return trial;
}

template <class System>
void run_trials(const char* name, int rounds) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Audit>;
  INFO(std::string{name});
  Random random(7);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const Trial trial = random_trial(random);
    SmallCost world;
    world.rate = BytesPerSecond{5e5 + 5e6 * random.uniform()};
    if (round % 2 == 1) world.lanes = Lanes::each_way;
    typename E::Config config{.limits = {.batch = trial.batch, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
                              .geometry = {trial.layers, Bytes{4096}, Bytes{1 << 20}, Bytes{3000}},
                              .device_blocks = trial.device,
                              .host_blocks = trial.host,
                              .cost = SmallCost{},
                              .backend = BasicSimulated<SmallCost>{world}};
    auto made = E::make(std::move(config));
    REQUIRE(made.has_value());
    E& engine = *made;
    std::size_t next = 0;
    std::size_t slots = 0;
    std::int64_t most_alive = 0;
    for (int guard = 0; guard < 200000; ++guard) {
      while (next < trial.requests.size() && trial.requests[next].arrival <= engine.now())
        (void)engine.submit(trial.requests[next++]);
      most_alive = std::max(most_alive, engine.alive());
      if (engine.step() == Stepped::idle) {
        if (next == trial.requests.size()) break;
        engine.idle_until(trial.requests[next].arrival);
      }
      check_ledger(engine);
      CHECK(engine.view().running.size() <= static_cast<std::size_t>(trial.batch));
      slots = engine.view().rows.size();
    }
    CHECK_MESSAGE(engine.alive() == 0, "no request is lost");
    // Submission checks the least holding; a placement that chooses to hold more on a small host owns that choice.
    if (E::relief_type::parting == Parting::park && trial.host.count() >= 100000)
      CHECK_MESSAGE(engine.template observed<Audit>().broken_promises == 0, "who was accepted is served");
    CHECK(slots <= static_cast<std::size_t>(most_alive));
    CHECK(engine.ledger().device().used().count() == 0);
    CHECK(engine.ledger().host().used().count() == 0);
    const auto& lives = engine.template observed<Audit>().lives;
    CHECK(lives.size() == trial.requests.size());
    for (const auto& one : lives) { // not a structured binding: clang 14 lets no lambda, such as CAPTURE's, refer to it
      CAPTURE(index(one.first));
      CHECK(one.second.ended != one.second.refused);
    }
  }
}

} // namespace sluice::testing

#define SLUICE_CONSERVES(System)                                                                                       \
  TEST_CASE("conservation: " #System) { sluice::testing::run_trials<System>(#System, 40); }
