// SPDX-License-Identifier: Apache-2.0
#include "identity/eigen/trials.hpp"

#include <limits>

namespace sluice::testing {

TEST_CASE("a copy that fails for good fails one request, and the others keep all their memory") {
  Random random(26);
  int lost = 0;
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.faults.seed = random.below(1000);
    trial.faults.tags_failing.push_back(1 + random.below(80));
    const RealResult result = run_real<Chaos>(trial, trial.largest() + 2 * trial.layers() + 8);
    check_identity(result, expected);
    CHECK(result.refused <= 1);
    lost += static_cast<int>(result.refused);
  }
  CHECK(lost > 0);
}

TEST_CASE("weights whose early fetch fails are fetched once more, and no request is lost") {
  Random random(27);
  RealTrial trial = random_real_trial(random);
  trial.weights = random_weights(trial.weights.config, 5);
  trial.link = {};
  for (auto& arrival : trial.arrivals) arrival = 0;
  const std::vector<RealOutput> expected = alone(trial);
  int lost = 0, served = 0;
  for (std::uint64_t tag = 1; tag < 200; ++tag) {
    CAPTURE(tag);
    trial.faults.tags_failing = {tag};
    const RealResult result = run_real<DeepSpeedWeights>(trial, trial.all());
    check_identity(result, expected);
    lost += result.refused > 0;
    served += result.refused == 0 && result.moved.to_device.failed > 0;
  }
  CHECK(lost > 0);   // what the running iteration needs
  CHECK(served > 0); // what it fetched ahead
}

TEST_CASE("a model that computes NaN is reported, and no token is chosen") {
  Random random(28);
  RealTrial trial = random_real_trial(random);
  const std::vector<RealOutput> sound = alone(trial);
  CHECK_FALSE(sound[0].tokens.empty());
  // The last tensor of the last layer: every request passes it.
  auto* weight = reinterpret_cast<float*>(const_cast<std::byte*>(trial.weights.layers.back().back()));
  *weight = std::numeric_limits<float>::quiet_NaN();
  const RealResult result = run_real<Engine<>>(trial, trial.all());
  CHECK(result.refused == static_cast<std::int64_t>(trial.prompts.size()));
  for (const RealOutput& output : result.outputs) CHECK(output.tokens.empty());
}

TEST_CASE("requests that find less room than the ledger has are computed again, with the same tokens and logits") {
  Random random(29);
  std::int64_t preempted = 0;
  const auto check = [&](const RealTrial& trial, const RealResult& result) {
    check_identity(result, alone(trial));
    CHECK(result.refused == 0);
    preempted += result.preempted;
  };
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    RealTrial trial = at_once(random_real_trial(random));
    trial.limits.batch = 5;
    const std::int64_t room = trial.largest() + 2 * trial.layers() + 8;
    const auto counts_more = [&](auto& config) { config.device_blocks = LayerBlocks{room + trial.all()}; };
    check(trial, run_real<Engine<>>(trial, room, counts_more)); // with an honest ledger, it would preempt by itself
    trial.tier_blocks = trial.all();
    check(trial, run_real<Engine<>>(trial, room, counts_more));
    check(trial, run_real<ChaosShares>(trial, room, counts_more));
  }
  CHECK(preempted > 10);
}

TEST_CASE("a request that must be recomputed and finds no rows for it is the only one lost") {
  Random random(25);
  std::int64_t refused = 0, served = 0;
  for (int round = 0; round < 8; ++round) {
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.rows_to_rebuild = false;
    const RealResult result = run_real<Chaos>(trial, 11 * trial.largest() / 10 + 2 * trial.layers() + 8);
    check_identity(result, expected);
    refused += result.refused;
    served += static_cast<std::int64_t>(trial.prompts.size()) - result.refused;
  }
  CHECK(refused > 0);
  CHECK(served > 0);
}

TEST_CASE("transfers that are late, slow and in any order change no token") {
  Random random(24);
  RealExercise exercise;
  std::int64_t overtakings[2] = {}, blocks[2] = {}; // in the transfer rule's order, and in a drawn one
  for (int round = 0; round < 48; ++round) {
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    const std::vector<RealOutput> expected = alone(trial);
    trial.faults.seed = random.below(1000);
    trial.faults.most_delay = Seconds{200e-6};
    trial.faults.most_slowdown = 4;
    for (const bool reorders : {false, true}) { // of the same trial, so that both are compared on the same blocks
      trial.faults.reorders = reorders;
      const RealResult result = run_real<Chaos>(trial, trial.largest() + 2 * trial.layers() + 8,
                                                [](auto& config) { config.placement.rebuild_one_in = 0; });
      CHECK(result.refused == 0);
      check_identity(result, expected);
      exercise.add(result);
      overtakings[reorders] += result.overtakings;
      blocks[reorders] += result.blocks;
    }
  }
  CHECK(exercise.bytes > 0);
  CHECK(overtakings[1] * blocks[0] > overtakings[0] * blocks[1]); // a quarter of all, compared with a twelfth in order
}

} // namespace sluice::testing
