// SPDX-License-Identifier: Apache-2.0
// KeptProblem: its columns and rows; a cost model's floor is below its steps. bench/bound_worlds.py compares engines.
#include "sluice/bound/kept_problem.hpp"
#include "sluice/core/random.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/linear_profile.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace sluice;

namespace {

/// Random work is never faster than the floor, and sometimes as fast.
template <class Model>
void check_floor(const Model& model, int layers, std::uint64_t seed) {
  Random random(seed);
  const StepFloor floor = model.floor();
  int near = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    std::vector<ChunkWork> chunks(random.below(4));
    double tokens = 0, pairs = 0;
    for (ChunkWork& chunk : chunks) {
      chunk = {Tokens{1 + static_cast<std::int64_t>(random.below(3000))},
               Tokens{static_cast<std::int64_t>(random.below(3000))}};
      const auto x = static_cast<double>(chunk.fresh.count()), y = static_cast<double>(chunk.cached.count());
      tokens += x;
      pairs += x * (y + 0.5 * (x + 1));
    }
    Work work;
    work.decodes = static_cast<std::int64_t>(random.below(64));
    for (std::int64_t i = 0; i < work.decodes; ++i)
      work.decode_context += Tokens{1 + static_cast<std::int64_t>(random.below(8000))};
    work.chunks = chunks;
    work.samples = work.decodes + (chunks.empty() ? 0 : static_cast<std::int64_t>(random.below(2)));
    const double step = model.step(work).total(layers).count();
    double most = 0;
    for (const StepLine& line : floor.lines)
      most =
          std::max(most, (work.samples > 0 ? line.fixed_s : 0.0) + line.decode_s * static_cast<double>(work.decodes) +
                             line.context_s * static_cast<double>(work.decode_context.count()) + line.token_s * tokens +
                             line.pair_s * pairs);
    CHECK(most <= step * (1 + 1e-9));
    near += most > 0.8 * step;
  }
  CHECK(near > 1000);
}

/// What the bound takes rebuilding for is never more than an iteration that rebuilds takes: layers that keep hidden
/// states are projected, the others are passed too.
template <class Model>
void check_rebuilding(const Model& model, int layers, std::uint64_t seed) {
  Random random(seed);
  const StepFloor floor = model.floor();
  REQUIRE(floor.project_s > 0);
  REQUIRE(floor.pass_s > floor.project_s);
  int near = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    RebuiltWork rebuilt;
    rebuilt.tokens = Tokens{1 + static_cast<std::int64_t>(random.below(20'000))};
    rebuilt.states_on_device = random.below(2) == 0;
    const std::uint64_t kept = random.below(3); // of 2 layers: their hidden states
    for (int layer = 0; layer < layers; ++layer) {
      if (random.below(2) == 0) rebuilt.layers.insert(layer);
      if (random.below(2) < kept && rebuilt.layers.contains(layer)) rebuilt.hidden.insert(layer);
    }
    Work work;
    work.decodes = work.samples = 1 + static_cast<std::int64_t>(random.below(64));
    work.decode_context = Tokens{work.decodes * (1 + static_cast<std::int64_t>(random.below(500)))};
    work.rebuilds = {&rebuilt, 1};
    const double projected = rebuilt.layers.count();
    const double passed = passed_layers(rebuilt.layers, rebuilt.hidden).count();
    const double least = static_cast<double>(rebuilt.tokens.count()) / layers *
                         (projected * floor.project_s + passed * (floor.pass_s - floor.project_s));
    const double step = compute_time(model, work, layers).count();
    CHECK(least <= step * (1 + 1e-9));
    near += least > 0.5 * step ? 1 : 0;
  }
  CHECK(near > 200);
}

} // namespace

TEST_CASE("no step is below its cost model's floor") {
  for (const ModelShape& shape : {llama3_8b(), opt_13b()}) check_floor(Roofline{shape, a5000()}, shape.layers, 1);
  check_floor(LinearProfile{llama3_8b(), {9.63e-7, 4.95e-2}, {1.72e-5, 1.39e-2}, FlopsPerSecond{65e12}},
              llama3_8b().layers, 2);
}

TEST_CASE("no rebuilding is faster than the bound takes it for") {
  for (const ModelShape& shape : {llama3_8b(), opt_13b()}) check_rebuilding(Roofline{shape, a5000()}, shape.layers, 3);
  check_rebuilding(LinearProfile{llama3_8b(), {9.63e-7, 4.95e-2}, {1.72e-5, 1.39e-2}, FlopsPerSecond{65e12}},
                   llama3_8b().layers, 4);
}

TEST_CASE("columns cover the time in which a first token is in time, and a request that cannot be kept has none") {
  BoundMachine machine;
  machine.floor = {{{.fixed_s = 1}, {.token_s = 0.5}}, 0.5, 0.5};
  machine.memory = TokenBlocks{10};
  machine.batch = 2;
  machine.fetched_per_s = 100;
  RequestSpec request;
  request.prompt = Tokens{4}; // 2 s
  request.output = Tokens{3};
  request.slo = {Seconds{5}, Seconds{1}};
  for (const Freedom freedom : {Freedom{true, true}, Freedom{false, true}, Freedom{true, false}}) {
    const KeptProblem problem(machine, std::vector{request}, freedom);
    REQUIRE(!problem.columns().empty());
    CHECK(problem.columns().front().earliest_s == doctest::Approx(2));
    CHECK(problem.columns().back().latest_s == doctest::Approx(5));
    for (std::size_t i = 1; i < problem.columns().size(); ++i)
      CHECK(problem.columns()[i].earliest_s == problem.columns()[i - 1].latest_s);
  }
  request.slo.ttft = Seconds{1.9};
  CHECK(KeptProblem(machine, std::vector{request}, {}).columns().empty());
  request.slo.ttft = Seconds{5};
  machine.memory = TokenBlocks{0}; // nowhere to keep it without the link
  CHECK(KeptProblem(machine, std::vector{request}, {true, false}).columns().empty());
}
