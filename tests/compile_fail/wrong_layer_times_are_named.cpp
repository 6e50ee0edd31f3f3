// SPDX-License-Identifier: Apache-2.0
// `layer_times` is optional, so one with another signature would be ignored, and every layer would take the mean.
// sentences: 1
// says: this CostModel.s `layer_times` would never be called
#include "sluice/engine/engine.hpp"
#include "sluice/policy/cost/linear_profile.hpp"

#include <span>

struct Uneven : sluice::LinearProfile {
  using LinearProfile::LinearProfile;
  [[nodiscard]] const Uneven& predictor(const State&) const { return *this; }
#ifdef GOOD
  bool
#else
  void
#endif
  layer_times(const sluice::Work& work, std::span<double> seconds) const {
    for (double& each : seconds) each = step(work).layer.count();
#ifdef GOOD
    return true;
#endif
  }
};

using E = sluice::Engine<Uneven>;

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }
