// SPDX-License-Identifier: Apache-2.0
// Node: engines with their own devices as without a node, on a bus as in the event simulation, in turns one at a time;
// no request is lost.
#include "sluice/core/random.hpp"
#include "sluice/engine/node/bus_coordinator.hpp"
#include "sluice/engine/node/node.hpp"
#include "sluice/engine/node/remap_controller.hpp"
#include "sluice/engine/node/simulate_node.hpp"
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/streamed_weights.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/admission/shortest_remaining_first.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/summary.hpp"

#include "engine/node/two_on_a_bus.hpp"
#include "engine/node_trials.hpp"
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Starts and ends of iterations, and their number of KV blocks.
struct Watch {
  using role = roles::Observer;
  using hears = Events<events::Iterated>;
  static constexpr bool wants_timeline = false;
  struct Span {
    Seconds start, end;
    LayerBlocks capacity;
    Bytes weights;
  };
  struct State {
    std::vector<Span> spans;
  };
  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    state.spans.push_back({record.start, record.start + record.duration, record.device_capacity, record.weights});
  }
};

template <class System>
using Small = With<System, SmallCost, BasicSimulated<SmallCost>, Audit, Watch, Summary>;

template <class E>
typename E::Config small_config(const Trial& trial, BytesPerSecond rate) {
  SmallCost world;
  world.rate = rate;
  return trial_config<E>(trial, world, Bytes{1 << 16}, world);
}

template <class A, class B>
void check_same_life(const A& first, const B& second) {
  const auto& a = first.template observed<Watch>().spans;
  const auto& b = second.template observed<Watch>().spans;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].start == b[i].start);
    CHECK(a[i].end == b[i].end);
    CHECK(a[i].weights == b[i].weights);
  }
}

template <class E>
E alone(const Trial& trial, BytesPerSecond rate) {
  auto engine = E::make(small_config<E>(trial, rate));
  REQUIRE(engine.has_value());
  TrialReader reader{trial.requests};
  REQUIRE(simulate(*engine, reader).ok());
  return std::move(*engine);
}

template <class First, class Second>
void check_apart(int rounds) {
  using A = Small<First>;
  using B = Small<Second>;
  Random random{11};
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const Trial one = random_trial(random);
    const Trial two = random_trial(random);
    const BytesPerSecond rate{5e5 + 5e6 * random.uniform()};
    using Two = Node<A, B>;
    auto node = Two::make({.engines = {small_config<A>(one, rate), small_config<B>(two, rate)}});
    REQUIRE(node.has_value());
    std::array<TrialReader, 2> readers{TrialReader{one.requests}, TrialReader{two.requests}};
    REQUIRE(simulate_node(*node, readers).ok());
    check_same_life(node->template engine<0>(), alone<A>(one, rate));
    check_same_life(node->template engine<1>(), alone<B>(two, rate));
  }
}

/// Round numbers: a layer computes for `layer_s` with any work; nothing before and after the layers.
struct EvenCost {
  using role = roles::Cost;
  struct State {};
  double layer_s = 1;
  BytesPerSecond rate{1};
  [[nodiscard]] StepTime step(const Work&) const { return {Seconds{0}, Seconds{layer_s}, Seconds{0}}; }
  [[nodiscard]] LinkCost link() const {
    LinkCost link;
    link.rate = rate;
    return link;
  }
  [[nodiscard]] const EvenCost& predictor(const State&) const { return *this; }
  void observe(State&, const Observation&) const {}
};

using Streaming = Engine<IntervalOffload, EvenCost, BasicSimulated<EvenCost>, Watch>;

} // namespace

TEST_CASE("engines on a bus wide enough for all run as each would without the others, to the last bit") {
  check_apart<VllmRecompute, VllmSwap>(30);
  check_apart<OrbitFlow, DeepSpeedWeights>(20);
  check_apart<SelectN, Mirage>(20);
  check_apart<Confluence, VllmSwap>(20);
}

TEST_CASE("devices that stream weights over one bus end every iteration as the event simulation does") {
  Random random{31};
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    std::vector<test::StreamingDevice> devices;
    std::array<TrialReader, 3> readers;
    const int iterations = 6;
    std::array<EvenCost, 3> costs;
    std::array<int, 3> intervals{};
    std::array<int, 3> layers{};
    for (std::size_t i = 0; i < 3; ++i) {
      test::StreamingDevice device;
      layers[i] = 2 + static_cast<int>(random.below(12));
      intervals[i] = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(layers[i])));
      device.layer_s = 0.5 + random.uniform();
      device.layer_bytes = 1e6;
      device.lane = 1e6 * (0.3 + 2 * random.uniform());
      device.slots = intervals[i] == 1 ? 2 : 1;
      for (int l = 0; l < layers[i]; ++l) device.streamed.push_back(l % intervals[i] == intervals[i] - 1);
      device.starts_s = i == 0 ? 0 : 10 * random.uniform();
      device.iterations = iterations;
      devices.push_back(device);
      costs[i] = {device.layer_s, BytesPerSecond{device.lane}};
      RequestSpec spec;
      spec.arrival = Seconds{device.starts_s};
      spec.output = Tokens{iterations};
      readers[i].requests.push_back(spec);
    }
    const double bus = 1e6 * (0.5 + 3 * random.uniform());
    const auto config = [&](std::size_t i) {
      Streaming::Config made{.limits = {},
                             .geometry = {layers[i], Bytes{1000}, Bytes{1'000'000}, Bytes{0}},
                             .device_blocks = LayerBlocks{100'000},
                             .host_blocks = LayerBlocks{0},
                             .cost = costs[i],
                             .backend = BasicSimulated<EvenCost>{costs[i]}};
      made.weights.interval = intervals[i];
      return made;
    };
    using Three = Node<Streaming, Streaming, Streaming>;
    auto node = Three::make({.engines = {config(0), config(1), config(2)}, .bus = BytesPerSecond{bus}});
    REQUIRE(node.has_value());
    REQUIRE(simulate_node(*node, readers).ok());
    const auto expected = test::run_on_bus(devices, bus);
    node->for_each_engine([&](std::size_t i, const Streaming& engine) {
      CAPTURE(i);
      const auto& spans = engine.observed<Watch>().spans;
      REQUIRE(spans.size() == expected[i].size());
      for (std::size_t k = 0; k < spans.size(); ++k)
        CHECK(spans[k].end.count() == doctest::Approx(expected[i][k]).epsilon(1e-6));
    });
  }
}

TEST_CASE("on a narrow bus no request is lost under any coordinator, and a wider bus is never slower in sum") {
  Random random{5};
  for (int round = 0; round < 25; ++round) {
    CAPTURE(round);
    const Trial one = random_trial(random);
    const Trial two = random_trial(random);
    const BytesPerSecond rate{5e5 + 5e6 * random.uniform()};
    using A = Small<SelectN>;
    using B = Small<VllmSwap>;
    using Two = Node<BusCoordinator, A, B>;
    const BytesPerSecond bus = rate * (0.3 + random.uniform());
    auto node = Two::make(
        {.engines = {small_config<A>(one, rate), small_config<B>(two, rate)}, .coordinator = {.bus = bus}, .bus = bus});
    REQUIRE(node.has_value());
    std::array<TrialReader, 2> readers{TrialReader{one.requests}, TrialReader{two.requests}};
    REQUIRE(simulate_node(*node, readers).ok());
    check_all_served(node->engine<0>(), one.requests.size());
    check_all_served(node->engine<1>(), two.requests.size());
  }
}

TEST_CASE("in turns one engine runs at a time, only idle memory is lent, and no request is lost") {
  Random random{17};
  int lent = 0;
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    Trial trials[3] = {random_trial(random), random_trial(random), random_trial(random)};
    for (Trial& trial : trials) { // little memory of their own, and enough work to want more
      trial.device = LayerBlocks{trial.layers * static_cast<std::int64_t>(8 + random.below(8))};
      trial.batch = 8;
    }
    using E = Small<Mirage>;
    using Three = Node<RemapController, TakeTurns, E, E, E>;
    const BytesPerSecond rate{1e8};
    typename Three::Config config{.engines = {small_config<E>(trials[0], rate), small_config<E>(trials[1], rate),
                                              small_config<E>(trials[2], rate)},
                                  .sharing = {.quantum = Seconds{0.2 + random.uniform()}},
                                  .bus = rate};
    config.coordinator.order =
        round % 2 == 0 ? RemapController::Order::most_recent_first : RemapController::Order::least_recent_first;
    auto made = Three::make(std::move(config));
    REQUIRE(made.has_value());
    Three& node = *made;
    std::array<TrialReader, 3> readers{TrialReader{trials[0].requests}, TrialReader{trials[1].requests},
                                       TrialReader{trials[2].requests}};
    const auto watch = [&](const SimulationProgress&) {
      // All memory: KV and weights together never exceed it, whichever engine holds them.
      std::int64_t bytes = 0;
      node.for_each_engine([&](std::size_t i, const E& engine) {
        bytes += engine.ledger().device().capacity().count() * 4096 - trials[i].device.count() * 4096;
        int of_this = 0;
        for (std::size_t borrower = 0; borrower < 3; ++borrower) {
          of_this += node.lent(i, borrower);
          lent += node.lent(i, borrower);
        }
        // The memory that a level frees is available for this engine's KV and the others' together, except for slots.
        CHECK(of_this + engine.port().lent_to_itself() <= trials[i].layers - 2);
        bytes -= (of_this + engine.port().lent_to_itself()) * (std::int64_t{1} << 16);
      });
      CHECK(bytes <= 0);
      return true;
    };
    REQUIRE(simulate_node(node, readers, watch, 1).ok());
    std::vector<Watch::Span> all;
    node.for_each_engine([&](std::size_t i, const E& engine) {
      check_all_served(engine, trials[i].requests.size());
      CHECK(engine.port().borrowed() == LayerBlocks{0});
      for (const Watch::Span& span : engine.observed<Watch>().spans) all.push_back(span);
    });
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    for (std::size_t i = 1; i < all.size(); ++i) CHECK(all[i].start >= all[i - 1].end - Seconds{2e-9});
  }
  CHECK(lent > 0);
}

TEST_CASE("weights whose memory others used return over the link with the model's next iteration") {
  // Three engines that lack memory, or two if the third has enough. Every iteration moves the weights that its plan
  // streams, those that the plan before streamed and this one keeps, and those whose memory others used meanwhile
  // beyond that plan's own level.
  Random random{19};
  int returns = 0, beside = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    Trial trials[3] = {random_trial(random), random_trial(random), random_trial(random)};
    for (Trial& trial : trials) {
      trial.batch = 8;
      trial.device = LayerBlocks{trial.layers * static_cast<std::int64_t>(8 + random.below(8))};
    }
    if (round % 2 == 0) trials[2].device = LayerBlocks{trials[2].layers * 1000L};
    using E = Small<Mirage>;
    using Three = Node<RemapController, TakeTurns, E, E, E>;
    const BytesPerSecond rate{1e9};
    auto made = Three::make({.engines = {small_config<E>(trials[0], rate), small_config<E>(trials[1], rate),
                                         small_config<E>(trials[2], rate)},
                             .sharing = {.quantum = Seconds{0.05 + 0.3 * random.uniform()}}});
    REQUIRE(made.has_value());
    std::array<TrialReader, 3> readers{TrialReader{trials[0].requests}, TrialReader{trials[1].requests},
                                       TrialReader{trials[2].requests}};
    std::size_t seen = 0; // iterations of the third engine
    int most = 0;         // its layers whose memory others have used since
    int without = 0;      // layers that its last plan freed, except for its own KV
    LayerSet streamed;    // streamed by that plan
    const auto watch = [&](const SimulationProgress&) {
      const E& lender = made->engine<2>();
      const auto& spans = lender.observed<Watch>().spans;
      const int lent = made->lent(2, 0) + made->lent(2, 1);
      if (spans.size() > seen) {
        CHECK(spans.size() == seen + 1);
        const WeightsPlan& plan = lender.plan().weights;
        const int given = std::max(0, most - without - (plan.streamed - streamed).count());
        const int back = (streamed - plan.streamed).count() + given;
        const Bytes moved = spans.back().weights;
        CHECK(moved == Bytes{1 << 16} * (plan.streamed.count() + back));
        CHECK(spans.back().end - spans.back().start >= moved / rate * (1 - 1e-9));
        returns += given > 0 ? 1 : 0;
        beside += given > 0 && !streamed.empty() ? 1 : 0;
        streamed = plan.streamed;
        without = plan.streamed.empty() ? 0 : plan.level - lender.port().lent_to_itself();
        seen = spans.size();
        most = without;
      }
      if (lender.alive() == 0) without = std::max(without, lender.plan().weights.level); // no KV is there
      most = std::max({most, lent, without});
      return true;
    };
    REQUIRE(simulate_node(*made, readers, watch, 1).ok());
  }
  CHECK(returns > 20);
  CHECK(beside > 10);
}

TEST_CASE("two models side by side each compute at half speed while both have work") {
  Trial trial;
  trial.layers = 4;
  trial.batch = 1;
  trial.device = LayerBlocks{4000};
  trial.host = LayerBlocks{0};
  RequestSpec spec;
  spec.prompt = Tokens{1};
  spec.output = Tokens{20};
  trial.requests = {spec};
  using E = Small<VllmRecompute>;
  using Two = Node<SideBySide, E, E>;
  Trial later = trial;
  later.requests[0].arrival = Seconds{1000};
  const auto ends = [&](const Trial& other) {
    auto node = Two::make(
        {.engines = {small_config<E>(trial, BytesPerSecond{1e6}), small_config<E>(other, BytesPerSecond{1e6})}});
    REQUIRE(node.has_value());
    std::array<TrialReader, 2> readers{TrialReader{trial.requests}, TrialReader{other.requests}};
    REQUIRE(simulate_node(*node, readers).ok());
    return node->engine<0>().observed<Watch>().spans.back().end.count();
  };
  CHECK(ends(trial) == doctest::Approx(2 * ends(later)).epsilon(1e-9));
}

TEST_CASE("the same seed gives the same node run") {
  const auto run = [] {
    Random random{3};
    const Trial one = random_trial(random);
    const Trial two = random_trial(random);
    using A = Small<SelectN>;
    using Two = Node<BusCoordinator, A, A>;
    auto node =
        Two::make({.engines = {small_config<A>(one, BytesPerSecond{1e6}), small_config<A>(two, BytesPerSecond{1e6})},
                   .coordinator = {.bus = BytesPerSecond{1.2e6}},
                   .bus = BytesPerSecond{1.2e6}});
    std::array<TrialReader, 2> readers{TrialReader{one.requests}, TrialReader{two.requests}};
    REQUIRE(simulate_node(*node, readers).ok());
    std::vector<double> ends;
    for (const auto& span : node->engine<1>().observed<Watch>().spans) ends.push_back(span.end.count());
    return ends;
  };
  CHECK(run() == run());
}

TEST_CASE("an impossible configuration is reported in one line") {
  using E = Small<VllmRecompute>;
  Trial trial;
  trial.layers = 4;
  trial.batch = 1;
  trial.device = LayerBlocks{1};
  trial.host = LayerBlocks{0};
  using Two = Node<E, E>;
  const auto bad =
      Two::make({.engines = {small_config<E>(trial, BytesPerSecond{1}), small_config<E>(trial, BytesPerSecond{1})}});
  REQUIRE_FALSE(bad.has_value());
  CHECK_FALSE(bad.error().what.empty());
  trial.device = LayerBlocks{400};
  const auto no_bus =
      Two::make({.engines = {small_config<E>(trial, BytesPerSecond{1}), small_config<E>(trial, BytesPerSecond{1})},
                 .bus = BytesPerSecond{0}});
  REQUIRE_FALSE(no_bus.has_value());
}
