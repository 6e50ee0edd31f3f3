// SPDX-License-Identifier: Apache-2.0
// OrbitFlow's feedback in an engine: it learns a disturbed machine's factors, and nothing on one equal to its profile.
#include "sluice/engine/systems/orbitflow.hpp"

#include "engine/noted_events.hpp"
#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <tuple>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Six requests at once whose KV is several times the device's.
Trial crowded() {
  Trial trial{8, 6, LayerBlocks{8 * 24}, LayerBlocks{100000}, {}};
  for (int i = 0; i < 6; ++i) {
    RequestSpec spec;
    spec.prompt = Tokens{100 + 10 * i};
    spec.output = Tokens{120};
    spec.slo.tbt = Seconds{0.5};
    trial.requests.push_back(spec);
  }
  return trial;
}

/// Serves the trial on `machine`, planned with `profile`.
template <class E>
E served(const SmallCost& machine, const SmallCost& profile, std::vector<Happened>& noted) {
  const Trial trial = crowded();
  auto config = trial_config<E>(trial, machine, Bytes{1 << 20}, profile);
  config.observers = std::tuple{Notes{&noted}};
  auto engine = E::make(std::move(config));
  REQUIRE(engine.has_value());
  serve_to_end(*engine, trial);
  return *std::move(engine);
}

template <class Cost>
using Planning = With<OrbitFlow, Cost, BasicSimulated<SmallCost>, Notes>;

} // namespace

TEST_CASE("OrbitFlow learns how much slower the machine's computation and its link are") {
  const SmallCost profile;
  for (const double factor : {0.5, 2.0, 3.0}) {
    CAPTURE(factor);
    std::vector<Happened> noted;
    SmallCost slow_link = profile, slow_layers = profile;
    slow_link.rate = profile.rate / factor;
    slow_layers.base = profile.base * factor;
    slow_layers.per_token = profile.per_token * factor;
    const auto link = served<Planning<Calibrated<SmallCost>>>(slow_link, profile, noted).learned();
    CHECK(link.transfer == doctest::Approx(factor).epsilon(0.02));
    CHECK(link.compute == 1.0);
    const auto layers = served<Planning<Calibrated<SmallCost>>>(slow_layers, profile, noted).learned();
    CHECK(layers.compute == doctest::Approx(factor).epsilon(0.2)); // the time outside the layers stays as it is
    CHECK(layers.transfer == doctest::Approx(1).epsilon(0.02));
  }
}

TEST_CASE("on a machine equal to its profile, feedback changes no decision") {
  std::vector<Happened> learning, fixed;
  const auto learned = served<Planning<Calibrated<SmallCost>>>({}, {}, learning).learned();
  (void)served<Planning<SmallCost>>({}, {}, fixed);
  CHECK(learned.learned > 50);
  CHECK(learned.compute == 1.0);
  CHECK(learned.transfer == 1.0);
  CHECK(learning == fixed);
}
