// SPDX-License-Identifier: Apache-2.0
// check_hidden_systems: HCache, KVPR, AptServe, and eLLM with hidden states on the host, on any device.
#pragma once

#include "sluice/engine/systems/apt_serve.hpp"
#include "sluice/engine/systems/ellm.hpp"
#include "sluice/engine/systems/hcache.hpp"
#include "sluice/engine/systems/kvpr.hpp"
#include "sluice/policy/placement/uncached_problem.hpp"

#include "identity/eigen/chaos_checks.hpp"
#include "support/counting_runner.hpp"
#include "support/stepped_clock.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace sluice::testing {

/// Rebuilding delays nobody, so that requests without room for K and V keep hidden states.
struct StatesFirst : MostPendingFirst {
  StatesFirst() { delay_weight = 0; }
};

/// Trials of a model whose hidden states are a quarter of its K and V, and whose projections cost a planner nothing:
/// the case that HCache is designed for. `Trials` draws them; `make_where(counts)` says where one runs, with its rows
/// counted.
template <class Trials, class MakeWhere>
void check_hidden_systems(std::uint64_t seed, int rounds, const MakeWhere& make_where) {
  Random random(seed);
  CountedRows hcache, ellm, kvpr, apt_serve;
  std::int64_t preempted = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    RealTrial trial = at_once(Trials::draw(random));
    DecoderConfig config = trial.weights.config;
    config.shape.layers = 16; // eLLM's workspace is layers of two periods
    config.shape.hidden = 32;
    config.shape.kv_heads = config.shape.heads;
    trial.weights = random_weights(config, random.below(1000));
    trial.room_for_hidden = true;
    trial.slo = Seconds{10};
    const std::vector<RealOutput> expected = alone(trial);
    const std::int64_t kv = trial.largest() + 4 * trial.layers();
    const auto add = [](CountedRows& to, const CountedRows& one) {
      to.restored += one.restored;
      to.kept += one.kept;
    };
    {
      const auto counts = std::make_shared<CountedRows>();
      const RealResult result = run_real<HCache>(
          trial, kv, [](auto&) {}, {}, make_where(counts));
      CHECK(result.refused == 0);
      check_identity(result, expected);
      preempted += result.preempted;
      add(hcache, *counts);
    }
    {
      const auto counts = std::make_shared<CountedRows>();
      const RealResult result = run_real<Ellm>(
          trial, kv, [](auto& settings) { settings.placement.states = PrefixStates::on_host; }, {}, make_where(counts));
      CHECK(result.refused == 0);
      check_identity(result, expected);
      add(ellm, *counts);
    }
    {
      const auto counts = std::make_shared<CountedRows>();
      const RealResult result = run_real<Kvpr>(
          trial, kv, [](auto& settings) { settings.cost.rate = BytesPerSecond{2e6}; }, {}, make_where(counts));
      CHECK(result.refused == 0);
      check_identity(result, expected);
      add(kvpr, *counts);
    }
    {
      const auto counts = std::make_shared<CountedRows>();
      trial.room_for_hidden = false; // its ledger counts all of its states
      const RealResult result = run_real<With<AptServe, StatesFirst>>(
          trial, trial.largest() + trial.layers(), [](auto& settings) { run_stepped(settings, Seconds{3e-4}); }, {},
          make_where(counts));
      CHECK(result.refused == 0);
      check_identity(result, expected);
      add(apt_serve, *counts);
    }
  }
  CHECK(preempted > 0);
  CHECK(hcache.restored > 0);
  CHECK(hcache.kept > 0);
  CHECK(ellm.restored > 0);
  CHECK(ellm.kept > 0);
  CHECK(kvpr.restored > 0);
  CHECK(kvpr.kept > 0);
  CHECK(apt_serve.restored > 0);
  CHECK(apt_serve.kept > 0);
}

} // namespace sluice::testing
