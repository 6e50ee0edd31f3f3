// SPDX-License-Identifier: Apache-2.0
// Calibrated: it converges to a scaled world, separately for computation and transfers, and does not learn from itself.
#include "sluice/core/random.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/calibrated.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/cost/roofline.hpp"

#include "policy/cost/decoding.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr int layers = 32;

using Model = Calibrated<Roofline>;
Model model() { return Model(Roofline(llama3_8b(), h200())); }

/// Measurements of `work` in a world with `compute` times slower computation and a `transfer` times slower link, where
/// seven copies cross the link as `model` predicts them in `state`.
template <class M>
Observation seen_in_world(const M& model, const typename M::State& state, const Work& work, double compute,
                          double transfer) {
  const Roofline truth(llama3_8b(), h200());
  const LinkCost link = model.predictor(state).link();
  Observation seen{work, layers, true};
  seen.compute = truth.step(work).total(layers) * compute;
  seen.transfer_predicted = 7 * (Bytes{1 << 26} / link.rate + link.per_layer);
  seen.transfer = 7 * (Bytes{1 << 26} / truth.link().rate + truth.link().per_layer) * transfer;
  return seen;
}

} // namespace

TEST_CASE("a fresh state predicts like the base") {
  const Model calibrated = model();
  const Model::State state;
  const Work work = decoding(8, 2000);
  CHECK(calibrated.predictor(state).step(work).total(layers) == calibrated.base().step(work).total(layers));
  CHECK(calibrated.predictor(state).link().rate == calibrated.base().link().rate);
}

TEST_CASE("it converges to a scaled world in spite of noise, separately for computation and the link") {
  const Model calibrated = model();
  Model::State state;
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const Work work = decoding(static_cast<std::int64_t>(random.below(32) + 1), 1000);
    const double noise = 0.98 + 0.04 * random.uniform();
    calibrated.observe(state, seen_in_world(calibrated, state, work, 1.3 * noise, 0.7));
  }
  CHECK(state.learned == 1000);
  const Work work = decoding(5, 777);
  const auto belief = calibrated.predictor(state);
  CHECK(belief.step(work).total(layers) / calibrated.step(work).total(layers) == doctest::Approx(1.3).epsilon(0.01));
  CHECK(calibrated.link().rate / belief.link().rate == doctest::Approx(0.7).epsilon(0.001));
  CHECK(belief.link().per_layer / calibrated.link().per_layer == doctest::Approx(0.7).epsilon(0.001));
}

TEST_CASE("it does not learn from itself: measurements equal to the base's predictions change no factor") {
  const Model calibrated = model();
  Model::State state;
  const Work work = decoding(8, 2000);
  for (int i = 0; i < 50; ++i) calibrated.observe(state, seen_in_world(calibrated, state, work, 1.5, 1.0));
  const double learned = state.compute;
  CHECK(learned > 1.3);
  // Measurements equal to its present prediction keep the factor at 1.5: the ratio's denominator is the base's
  // prediction.
  for (int i = 0; i < 2000; ++i) calibrated.observe(state, seen_in_world(calibrated, state, work, 1.5, 1.0));
  CHECK(state.compute == doctest::Approx(1.5));
}

TEST_CASE("a repeated iteration, one without work and one without time teach nothing") {
  const Model calibrated = model();
  Model::State state;
  const Work work = decoding(8, 2000);
  Observation repeated = seen_in_world(calibrated, state, work, 2.0, 2.0);
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

namespace {

/// A machine whose layers take `layers` times the roofline's time, and whose iterations take `besides` more. Its
/// measurements have noise, disturbed layers, and completely useless iterations.
class MeasuredMachine {
 public:
  MeasuredMachine(double layers_factor, double besides_s) : factor_(layers_factor), besides_s_(besides_s) {}

  [[nodiscard]] double layer(const Work& work) const { return factor_ * truth_.step(work).layer.count(); }
  [[nodiscard]] double step(const Work& work) const {
    const StepTime time = truth_.step(work);
    return layers * layer(work) + factor_ * (time.before + time.after).count() + besides_s_;
  }
  /// `of_no_use`: other load used the machine for most of the iteration.
  void show(const Model& model, Model::State& state, const Work& work, bool of_no_use) {
    double sum = 0;
    for (double& one : layers_s_) {
      one = layer(work) * (0.98 + 0.04 * random_.uniform());
      if (of_no_use || random_.below(8) == 0) one *= 5 + 50 * random_.uniform();
      sum += one;
    }
    Observation seen{work, layers, true};
    seen.compute =
        Seconds{sum + (step(work) - layers * layer(work)) * (of_no_use ? 100 : 0.95 + 0.1 * random_.uniform())};
    seen.layers_s = layers_s_;
    model.observe(state, seen);
  }
  Random& random() { return random_; }

 private:
  Roofline truth_{llama3_8b(), h200()};
  double factor_, besides_s_;
  std::array<double, layers> layers_s_{};
  Random random_{11};
};

} // namespace

TEST_CASE("on a machine, layers and the time outside them are learned separately, in spite of disturbances") {
  for (const auto& one : {std::pair{1.7, 4e-3}, {0.4, 0.0}, {1.0, 2e-3}, {6.0, -1e-4}}) {
    const double factor = one.first, besides = one.second;
    CAPTURE(factor);
    const Model calibrated(Roofline(llama3_8b(), h200()), CalibrationPace::of_machine());
    Model::State state;
    MeasuredMachine machine(factor, besides);
    const auto works = [&] { return decoding(static_cast<std::int64_t>(1 + machine.random().below(32)), 1000); };
    const auto wrong = [&](const Work& work) {
      const StepTime believed = calibrated.predictor(state).step(work);
      return std::max(std::abs(believed.layer.count() / machine.layer(work) - 1),
                      std::abs(believed.total(layers).count() / machine.step(work) - 1));
    };
    for (int i = 0; i < 2; ++i) machine.show(calibrated, state, works(), true); // it warms up
    CHECK(state.learned == 0);
    CHECK(state.compute == 1.0);
    double worst = 0;
    for (int i = 0; i < 500; ++i) {
      machine.show(calibrated, state, works(), i % 6 == 5);
      if (i >= 30) worst = std::max(worst, wrong(works()));
    }
    CHECK(state.learned > 490);
    CHECK(worst < 0.04); // at no time after thirty iterations
  }
}

TEST_CASE("rebuilt layers are measured against their predicted times") {
  const Model calibrated(Roofline(llama3_8b(), h200()), CalibrationPace::of_machine());
  Model::State state;
  Work work = decoding(4, 500);
  const RebuiltWork rebuilt{Tokens{4000}, LayerSet::all(16), LayerSet{}};
  work.rebuilds = {&rebuilt, 1};
  std::array<double, layers> seconds;
  const StepTime outside = layer_times(calibrated.base(), work, seconds);
  CHECK(seconds[3] > 2 * seconds[30]);
  double sum = 0;
  for (double& one : seconds) sum += one *= 1.5;
  for (int i = 0; i < 60; ++i) {
    Observation seen{work, layers, true};
    seen.compute = Seconds{sum} + (outside.before + outside.after) * 1.5;
    seen.layers_s = seconds;
    calibrated.observe(state, seen);
  }
  CHECK(state.compute == doctest::Approx(1.5).epsilon(1e-3));
  CHECK(std::abs(state.besides.count()) < 1e-6);
}

TEST_CASE("a calibration with weight 0 learns nothing, and a median waits for enough values") {
  const Work work = decoding(8, 2000);
  const Model at_rest(Roofline(llama3_8b(), h200()), CalibrationPace::at_rest());
  Model::State state;
  for (int i = 0; i < 20; ++i) at_rest.observe(state, seen_in_world(at_rest, state, work, 3.0, 3.0));
  CHECK(state.compute == 1.0);
  CHECK(state.transfer == 1.0);
  const Model patient(Roofline(llama3_8b(), h200()), CalibrationPace{1.0, 3});
  for (const double factor : {100.0, 2.0}) patient.observe(state, seen_in_world(patient, state, work, factor, 1.0));
  CHECK(state.compute == 1.0);
  patient.observe(state, seen_in_world(patient, state, work, 3.0, 1.0));
  CHECK(state.compute == doctest::Approx(3.0)); // of 100, 2 and 3
  patient.observe(state, seen_in_world(patient, state, work, 2.5, 1.0));
  CHECK(state.compute == doctest::Approx(2.5)); // of 2, 3 and 2.5
}

TEST_CASE("a calibration around another learns the remaining factor") {
  const Calibrated<Model> twice(model(), 0.5);
  Calibrated<Model>::State state;
  const Work work = decoding(8, 2000);
  for (int i = 0; i < 200; ++i) twice.observe(state, seen_in_world(twice, state, work, 1.2, 1.0));
  CHECK(state.base.compute == doctest::Approx(1.2).epsilon(0.01));
  CHECK(twice.predictor(state).step(work).layer.count() > 0.0); // the inner predictor is held by value
}
