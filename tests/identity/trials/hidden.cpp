// SPDX-License-Identifier: Apache-2.0
// Hidden states, on the host or the device, instead of K and V.
#include "sluice/engine/systems/ellm.hpp"
#include "sluice/engine/systems/hcache.hpp"
#include "sluice/policy/placement/uncached_problem.hpp"
#include "sluice/policy/transfer/earliest_deadline_first.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "identity/eigen/trials.hpp"

namespace sluice::testing {

namespace {

using Hidden = With<Chaos, ChaosHidden>;
using HiddenAndKept = With<ChaosKeeps, ChaosHidden>;

Expected<std::unique_ptr<RealEngine>> with_states_on_host(const RealConfig& common) {
  Observed<Ellm>::Config config = real_config<Ellm>(common);
  config.placement.states = PrefixStates::on_host;
  return make_real<Ellm>(std::move(config));
}
Expected<std::unique_ptr<RealEngine>> with_slow_link(const RealConfig& common) {
  RealConfig config = common;
  config.cost.rate = BytesPerSecond{2e6};
  return real<Kvpr>(config);
}

} // namespace

TEST_CASE("hidden states saved, kept and dropped in every step change no token and no logit") {
  check_chaos(&real<Hidden>, 21, 0.8);
  check_chaos(&real<With<Hidden, NextLayer>>, 22, 1.1);
  check_chaos(&real<With<Hidden, FairShare>>, 17, 1.1);
  check_chaos(&real<With<Hidden, FairShare, ChaosWeights>>, 23, 1.1, 25);
  check_chaos(&real<With<Hidden, EarliestDeadlineFirst, ChaosWeights>>, 18, 1.1, 25);
}

TEST_CASE("hidden states kept on the device, dropped and computed again in every step change no token and no logit") {
  const auto rows = std::make_shared<CountedRows>();
  check_chaos(&real<ChaosKeeps>, 31, 1.1, 0, rows);
  check_chaos(&real<With<ChaosKeeps, NextLayer>>, 32, 1.1, 0, rows);
  check_chaos(&real<With<HiddenAndKept, ChaosWeights>>, 33, 1.1, 0, rows);
  CHECK(rows->restored > 0);
  CHECK(rows->kept > 0);
  check_chaos(&real<ChaosKeeps>, 35, 0.8);
  check_chaos(&real<With<HiddenAndKept, FairShare>>, 36, 1.1);
  check_chaos(&real<With<HiddenAndKept, FairShare>>, 34, 1.1, 25);
  check_chaos(&real<With<ChaosKeeps, EarliestDeadlineFirst, ChaosWeights>>, 37, 1.1, 25);
}

/// Where states are larger than KV, a request that keeps them may grow, or weights may take memory back, until it fits
/// neither with its states nor with the K and V that are rebuilt beside them.
TEST_CASE("no request is refused for the hidden states that it keeps on the device" *
          doctest::skip(!this_device().host_memory)) { // kernels compute no latents
  using Keeps = With<ChaosKeeps, EarliestDeadlineFirst, ChaosWeights>;
  RealExercise exercise;
  for (std::uint64_t seed = 37; seed < 61; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    RealTrial trial = random_real_trial(random);
    DecoderConfig config = with_latents(trial.weights.config);
    config.shape.hidden = 80; // and an entry has 28 numbers
    trial.weights = random_weights(config, seed);
    const std::vector<RealOutput> expected = alone(trial);
    const std::int64_t kv = 11 * trial.largest() / 10 + 2 * trial.layers() + 8;
    const RealResult result = this_device().run(trial, kv, stepped(&real<Keeps>), {}, random, {});
    CHECK(result.refused == 0);
    check_identity(result, expected);
    exercise.add(result);
  }
  CHECK(exercise.preempted > 0);
}

TEST_CASE("a host with little memory for hidden states changes no token and no logit") {
  Random random(19);
  for (int round = 0; round < this_device().rounds; ++round) {
    CAPTURE(round);
    RealTrial trial = this_device().draw(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.host_blocks = trial.largest() * static_cast<std::int64_t>(3 + random.below(9)) / 10;
    const MakeReal make = &real<With<Engine<EveryStep, ChaosRelief>, ChaosHidden>>;
    check_identity(this_device().run(trial, 11 * trial.largest() / 10 + trial.layers(), make, {}, random, {}),
                   expected);
  }
}

/// Trials of a model whose hidden states are a quarter of its K and V, and whose projections cost a planner nothing:
/// the case that HCache is designed for.
TEST_CASE("HCache, KVPR, AptServe, and eLLM with hidden states on the host, change no token and no logit") {
  const Device& device = this_device();
  Random random(6);
  CountedRows hcache, ellm, kvpr, apt_serve;
  std::int64_t preempted = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    RealTrial trial = at_once(device.draw(random));
    DecoderConfig config = trial.weights.config;
    config.shape.layers = 16; // eLLM's workspace is layers of two periods
    config.shape.hidden = 32;
    config.shape.latent = {};
    config.shape.kv_heads = config.shape.heads;
    trial.weights = random_weights(config, random.below(1000));
    trial.room_for_hidden = true;
    trial.slo = Seconds{10};
    const std::vector<RealOutput> expected = alone(trial);
    const std::int64_t kv = trial.largest() + 4 * trial.layers();
    const auto run = [&](std::int64_t blocks, const MakeReal& make, CountedRows& sum) {
      const auto counts = std::make_shared<CountedRows>();
      const RealResult result = device.run(trial, blocks, make, {}, random, counts);
      CHECK(result.refused == 0);
      check_identity(result, expected);
      sum.restored += counts->restored;
      sum.kept += counts->kept;
      return result.preempted;
    };
    preempted += run(kv, &real<HCache>, hcache);
    run(kv, &with_states_on_host, ellm);
    run(kv, &with_slow_link, kvpr);
    trial.room_for_hidden = false; // its ledger counts all of its states
    run(trial.largest() + trial.layers(), stepped(&real<AptServeStates>), apt_serve);
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
