// SPDX-License-Identifier: Apache-2.0
// Calibrated: it converges to a scaled world, apart for computation and transfers, and does not learn from itself.
#include "sluice/core/random.hpp"
#include "sluice/cost/calibrated.hpp"
#include "sluice/cost/roofline.hpp"
#include "sluice/device/named.hpp"
#include "sluice/model/named.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace sluice;

namespace {

constexpr int layers = 32;

Work decoding(std::int64_t count, std::int64_t context) {
  Work work;
  work.decodes = count;
  work.decode_context = Tokens{count * context};
  work.samples = count;
  return work;
}

using Model = Calibrated<Roofline>;
Model model() { return Model(Roofline(llama3_8b(), h200())); }

/// What a world `compute` times slower, over a link `transfer` times slower, shows of `work`.
Observation seen_in_world(const Work& work, double compute, double transfer) {
  const Roofline truth(llama3_8b(), h200());
  Observation seen{work, layers, true};
  seen.compute = truth.step(work).total(layers) * compute;
  seen.moved = Bytes{1 << 26};
  seen.transfers = 7;
  seen.transfer = (seen.moved / truth.link().rate + truth.link().per_layer * 7) * transfer;
  return seen;
}

} // namespace

TEST_CASE("a fresh state believes the base") {
  const Model calibrated = model();
  const Model::State state;
  const Work work = decoding(8, 2000);
  CHECK(calibrated.predictor(state).step(work).total(layers) == calibrated.base().step(work).total(layers));
  CHECK(calibrated.predictor(state).link().rate == calibrated.base().link().rate);
}

TEST_CASE("it converges to a scaled world, computation and link apart, through noise") {
  const Model calibrated = model();
  Model::State state;
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const Work work = decoding(static_cast<std::int64_t>(random.below(32) + 1), 1000);
    const double noise = 0.98 + 0.04 * random.uniform();
    calibrated.observe(state, seen_in_world(work, 1.3 * noise, 0.7));
  }
  CHECK(state.learned == 1000);
  const Work work = decoding(5, 777);
  const auto belief = calibrated.predictor(state);
  CHECK(belief.step(work).total(layers) / calibrated.step(work).total(layers) == doctest::Approx(1.3).epsilon(0.01));
  CHECK(calibrated.link().rate / belief.link().rate == doctest::Approx(0.7).epsilon(0.001));
  CHECK(belief.link().per_layer / calibrated.link().per_layer == doctest::Approx(0.7).epsilon(0.001));
}

TEST_CASE("it does not learn from itself: what the base predicts keeps every factor at rest") {
  const Model calibrated = model();
  Model::State state;
  const Work work = decoding(8, 2000);
  for (int i = 0; i < 50; ++i) calibrated.observe(state, seen_in_world(work, 1.5, 1.0));
  const double learned = state.compute;
  CHECK(learned > 1.3);
  // The world it now believes in, shown to it, moves it to 1.5 and no further: the ratio is not against its own belief.
  for (int i = 0; i < 2000; ++i) calibrated.observe(state, seen_in_world(work, 1.5, 1.0));
  CHECK(state.compute == doctest::Approx(1.5));
}

TEST_CASE("a repeated iteration, one of no work and one of no time teach nothing") {
  const Model calibrated = model();
  Model::State state;
  const Work work = decoding(8, 2000);
  Observation repeated = seen_in_world(work, 2.0, 2.0);
  repeated.predicted = false;
  calibrated.observe(state, repeated);
  const Work nothing;
  Observation empty{nothing, layers, true};
  empty.compute = Seconds{1.0};
  calibrated.observe(state, empty);
  Observation untimed{work, layers, true};
  calibrated.observe(state, untimed);
  Observation broken{work, layers, true};
  broken.compute = Seconds{std::numeric_limits<double>::infinity()};
  calibrated.observe(state, broken);
  CHECK(state.compute == 1.0);
  CHECK(state.transfer == 1.0);
  CHECK(state.learned == 0);
}

TEST_CASE("one calibration around another shares what is left to learn") {
  const Calibrated<Model> twice(model(), 0.5);
  Calibrated<Model>::State state;
  const Work work = decoding(8, 2000);
  for (int i = 0; i < 200; ++i) twice.observe(state, seen_in_world(work, 1.2, 1.0));
  CHECK(state.base.compute == doctest::Approx(1.2).epsilon(0.01));
  CHECK(twice.predictor(state).step(work).layer.count() > 0.0); // the inner belief is held by value
}
