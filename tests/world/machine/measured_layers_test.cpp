// SPDX-License-Identifier: Apache-2.0
// A machine's measured layers reach an engine's cost model, which then predicts the machine's times; layers and stalls
// are parts of iterations.
#include "sluice/core/random.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/calibrated.hpp"
#include "sluice/world/cpu/cpu.hpp"
#include "sluice/world/cpu/cpu_machine.hpp"
#include "sluice/world/local/memory.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/recorded.hpp"
#include "sluice/world/simulated.hpp"

#include "support/looked_at_world.hpp"
#include "support/small_models.hpp"
#include "world/local/counting_decoder.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

/// A world that measures its layers, and sometimes pauses within a layer, longest in its first.
class MeasuredWorld final : public WorldOf<BasicSimulated<Roofline>> {
 public:
  MeasuredWorld(const Roofline& truth, std::uint64_t seed)
      : WorldOf(BasicSimulated{truth}), truth_(truth), random_(seed) {}

  IterationCost wait(const Iteration& iteration) override {
    IterationCost cost = WorldOf::wait(iteration);
    layers_s_.resize(static_cast<std::size_t>(iteration.view.geometry.layers));
    (void)sluice::layer_times(truth_, iteration.work, layers_s_);
    double still = 0;
    const auto stands_still = [&](double& layer) {
      const double more = 40 * layer * random_.uniform();
      layer += more;
      still += more;
    };
    if (iterations_++ < 2) std::for_each(layers_s_.begin(), layers_s_.end(), stands_still);
    if (random_.below(3) == 0) stands_still(layers_s_[random_.below(layers_s_.size())]);
    if (random_.below(9) == 0) still += cost.duration.count() * 20; // between two layers
    cost.duration += Seconds{still};
    idle_until(now() + Seconds{still});
    return cost;
  }
  [[nodiscard]] std::span<const double> computed_layers() const override { return layers_s_; }

 private:
  Roofline truth_;
  Random random_;
  int iterations_ = 0;
  std::vector<double> layers_s_;
};

template <class E>
void serve_all(E& engine, int requests, Tokens prompt, Tokens output) {
  for (int i = 0; i < requests; ++i) {
    RequestSpec spec;
    spec.prompt = prompt + Tokens{i};
    spec.output = output;
    spec.slo = {Seconds{5}, Seconds{0.5}};
    REQUIRE(engine.submit(spec));
  }
  while (engine.alive() > 0) REQUIRE(engine.step() == Stepped::ran);
}

/// The same device at another speed.
Device at_speed(const Device& device, double speed) {
  Device slower = device;
  slower.memory_bandwidth = device.memory_bandwidth * speed;
  slower.half_precision_peak = device.half_precision_peak * speed;
  return slower;
}

template <class System>
void converges(double speed) {
  using E = With<System, Calibrated<Roofline>, Cpu>;
  const Device device = *find_device("h100");
  Limits limits;
  limits.batch = 8;
  limits.max_context = Tokens{4096};
  const Server server{llama3_8b(), device, TokenBlocks{600}, limits};
  const auto from = configure<System>(server);
  const Roofline truth(llama3_8b(), at_speed(device, speed));
  auto engine = E::make({.limits = from.limits,
                         .geometry = from.geometry,
                         .device_blocks = from.device_blocks,
                         .host_blocks = from.host_blocks,
                         .cost = Calibrated<Roofline>{from.cost, CalibrationPace::of_machine()},
                         .backend = Cpu{std::make_shared<MeasuredWorld>(truth, 5)}});
  REQUIRE(engine);
  serve_all(*engine, 12, Tokens{400}, Tokens{120});
  CHECK(engine->learned().learned > 50);
  Work work;
  work.decodes = 8;
  work.decode_context = Tokens{8 * 450};
  work.samples = 8;
  const StepTime believed = engine->predictor().step(work), is = truth.step(work);
  CHECK(believed.layer.count() == doctest::Approx(is.layer.count()).epsilon(0.01));
  const int layers = from.geometry.layers;
  CHECK(believed.total(layers).count() == doctest::Approx(is.total(layers).count()).epsilon(0.02));
}

} // namespace

TEST_CASE("an engine learns the layer times that its machine measures, despite pauses") {
  for (const double speed : {0.5, 1.0, 3.0}) {
    CAPTURE(speed);
    converges<VllmSwap>(speed);
    converges<OrbitFlow>(speed); // plans ahead
  }
}

TEST_CASE("a machine's layers and stalls are parts of its iterations; a recorded machine reports no layers") {
  const ModelWeights weights = testing::small_weights(testing::SmallModel::llama, ElementType::f32);
  MachineSetup setup;
  setup.limits.batch = 2;
  setup.limits.max_context = Tokens{48};
  setup.host_blocks = LayerBlocks{200};
  setup.device_memory = Bytes{8 << 20};
  for (const bool recorded : {false, true}) {
    auto machine =
        make_cpu_machine(weights, std::make_unique<testing::CountingDecoder>(weights.config), setup, TokenListener{});
    REQUIRE(machine);
    const auto looked_at = std::make_shared<testing::LookedAt>(*machine, Seconds{0});
    ClockRecord record;
    std::shared_ptr<BackendWorld> world = looked_at;
    if (recorded) world = world_of(Recorded{RealBackend{world}, record});
    using E = With<VllmSwap, Calibrated<Roofline>, Cpu>;
    const Roofline believed(weights.config.shape, *find_device("h100"));
    auto engine = E::make({.limits = setup.limits,
                           .geometry = local_geometry(weights, setup.limits.block_tokens),
                           .device_blocks = LayerBlocks{3 * weights.config.shape.layers + 2},
                           .host_blocks = setup.host_blocks,
                           .cost = Calibrated<Roofline>{believed, CalibrationPace::of_machine()},
                           .backend = Cpu{world}});
    REQUIRE(engine);
    for (int i = 0; i < 3; ++i) {
      RequestSpec spec;
      spec.prompt = Tokens{10};
      spec.output = Tokens{20};
      const Expected<RequestId> id = engine->submit(spec);
      REQUIRE(id);
      TokenRequest tokens;
      tokens.tokens.assign(10, 1);
      (*machine)->enter(*id, std::move(tokens));
    }
    while (engine->alive() > 0) REQUIRE(engine->step() == Stepped::ran);
    CHECK(looked_at->iterations > 20);
    CHECK(looked_at->wrong == 0);
    CHECK(engine->learned().learned > 10);
    CHECK(world->computed_layers().empty() == recorded);
    CHECK((engine->learned().besides == Seconds{0}) == recorded);
  }
}
