// SPDX-License-Identifier: Apache-2.0
// Node trials: random tenants in a node, and what the node and each of its engines must guarantee.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/engine/node/bus_coordinator.hpp"
#include "sluice/engine/node/node.hpp"
#include "sluice/engine/node/remap_controller.hpp"
#include "sluice/engine/node/simulate_node.hpp"

#include "engine/trials.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sluice::testing {

/// In turns, side by side or separately, as the trial says: one node type for all.
struct AnySharing {
  using role = roles::Sharing;
  using State = TakeTurns::State;

  enum class Kind : std::uint8_t { turns, together, apart };
  Kind kind = Kind::turns;
  TakeTurns turns{};

  [[nodiscard]] bool may_run(State& state, const Occupancy& now, std::size_t engine, Seconds at) const {
    return kind != Kind::turns || turns.may_run(state, now, engine, at);
  }
  [[nodiscard]] bool inactive(const State& state, std::size_t engine) const {
    return kind == Kind::turns && turns.inactive(state, engine);
  }
  [[nodiscard]] double slowdown(const Occupancy& now) const {
    return kind == Kind::together ? SideBySide{}.slowdown(now) : 1;
  }
};

/// Reads a list.
struct TrialReader {
  std::vector<RequestSpec> requests;
  std::size_t at = 0;
  Expected<std::optional<RequestSpec>> next() {
    if (at == requests.size()) return std::optional<RequestSpec>{};
    return std::optional<RequestSpec>{requests[at++]};
  }
};

/// The KV of all engines fits the KV memory plus the memory that owners of layers have freed, for their own KV by the
/// current plan or for others'.
template <class N>
void check_device_memory(const N& node) {
  double used = 0, there = 0;
  node.for_each_engine([&](std::size_t i, const auto& engine) {
    const Geometry& geometry = engine.port().geometry();
    const double block = static_cast<double>(geometry.layer_block_bytes.count());
    int without = engine.port().lent_to_itself();
    for (std::size_t borrower = 0; borrower < N::count; ++borrower) without += node.lent(i, borrower);
    const double share = engine.plan().weights.share;
    used += block * static_cast<double>(engine.ledger().device().capacity().count());
    const double room = block * static_cast<double>(engine.port().own_blocks().count()) +
                        share * without * static_cast<double>(geometry.layer_weight_bytes.count());
    there += std::max(0.0, room); // below 0 until its first plan if the weights exceed the device
  });
  CHECK_MESSAGE(used <= there + 1, "no memory belongs to two engines");
}

/// Three tenants of that system under that coordinator, with different models, devices, batches and requests.
template <class System, class Coordinator>
void run_node_trials(const char* name, int rounds) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Audit>;
  using N = Node<Coordinator, AnySharing, E, E, E>;
  INFO(std::string{name});
  Random random(23);
  Exercised exercised;
  int lent = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    std::array<Trial, 3> trials;
    std::array<TrialReader, 3> readers;
    const BytesPerSecond lane{5e5 + 5e6 * random.uniform()};
    const auto config = [&](std::size_t i) {
      trials[i] = random_trial(random);
      SmallCost world;
      world.rate = lane;
      Bytes layer_weights{1 << 16};
      if constexpr (streams_weights<E>) layer_weights = streamed_weights(trials[i], random);
      readers[i].requests = trials[i].requests;
      typename E::Config made = trial_config<E>(trials[i], world, layer_weights);
      made.cost = world;
      return made;
    };
    typename N::Config made{.engines = {config(0), config(1), config(2)}};
    made.sharing.kind = static_cast<AnySharing::Kind>(random.below(3));
    made.sharing.turns.quantum = Seconds{0.01 + 0.2 * random.uniform()};
    if (random.below(2) == 0) made.bus = lane * (0.5 + 2 * random.uniform());
    for (int& priority : made.priorities) priority = static_cast<int>(random.below(2));
    if constexpr (requires { made.coordinator.bus; }) made.coordinator.bus = made.bus;
    if constexpr (requires { made.coordinator.order; }) {
      if (random.below(2) == 0) made.coordinator.order = RemapController::Order::least_recent_first;
      made.coordinator.revert = random.below(4) != 0;
    }
    auto node = N::make(std::move(made));
    REQUIRE(node.has_value());
    Seconds last{0};
    int events = 0;
    const auto check = [&](const SimulationProgress&) {
      CHECK_MESSAGE(node->now() >= last, "time never runs backwards");
      last = node->now();
      node->for_each_engine([](std::size_t, const E& engine) { check_ledger(engine, false); });
      check_device_memory(*node);
      for (std::size_t i = 0; i < 9; ++i) lent += node->lent(i / 3, i % 3);
      return ++events < 200000;
    };
    REQUIRE(simulate_node(*node, readers, check, 1).ok());
    CHECK_MESSAGE(events < 200000, "the run ends");
    node->for_each_engine([&](std::size_t i, const E& engine) {
      CAPTURE(i);
      check_all_served(engine, trials[i].requests.size());
      exercised.add(engine);
    });
  }
  CHECK((exercised.weights_moved > 0) == streams_weights<E>);
  CHECK((lent > 0) == (std::is_same_v<Coordinator, RemapController>));
}

} // namespace sluice::testing

#define SLUICE_NODE_CONSERVES(System, Coordinator)                                                                     \
  TEST_CASE("conservation in a node: " #System ", " #Coordinator) {                                                    \
    sluice::testing::run_node_trials<System, Coordinator>(#System ", " #Coordinator, 20);                              \
  }
